"""The user's own rule file."""

import json

import pytest

pytest.importorskip("libcst")
from softnpu.migrate.convert import Options, convert
from softnpu.migrate.errors import MigrateError
from softnpu.migrate.reading.source import Source
from softnpu.migrate.rules.rule_set import read_custom

GUIDE = {
    "rules": {
        "ArgsModifyRule": [
            {"func_name": "name1", "arg_idx": 0, "arg_new": "agrs0"},
            {"func_name": "name2", "arg_idx": 0, "arg_new": "agrs0"},
        ],
        "FuncNameModifyRule": [{"old_name": "func", "new_name": "new_func"}],
        "ModuleNameModifyRule": [{"old_name": "module", "new_name": "new_module", "parent_module": "parent_module"}],
    }
}


def convert_with(tmp_path, rules, text):
    path = tmp_path / "rule.json"
    path.write_text(json.dumps(rules))
    options = Options(custom=read_custom(path))
    done = convert(Source(text, "utf-8", False), options)
    assert convert(Source(done.text, "utf-8", False), options).text == done.text
    return done.text


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("name1(a, b)\n", "name1(agrs0, b)\n"),
        ("x.name2(a)\n", "x.name2(agrs0)\n"),
        ("name1()\n", "name1()\n"),
        ("name1(*a)\n", "name1(*a)\n"),
        ("func(1); x.func(2)\n", "new_func(1); x.new_func(2)\n"),
        ("from m import func\nfunc()\n", "from m import new_func\nnew_func()\n"),
        ("def func(): pass\n", "def func(): pass\n"),
        (
            "import parent_module\nparent_module.module.f(parent_module.other)\n",
            "import parent_module\nparent_module.new_module.f(parent_module.other)\n",
        ),
        ("import parent_module.module as m\nm.f()\n", "import parent_module.new_module as m\nm.f()\n"),
        (
            "from parent_module import module\nmodule.f()\n",
            "from parent_module import new_module as module\nmodule.f()\n",
        ),
        ("from parent_module.module import f\n", "from parent_module.new_module import f\n"),
        ("module.f()\n", "module.f()\n"),
    ],
)
def test_the_guides_example(tmp_path, old, new):
    assert convert_with(tmp_path, GUIDE, old) == new


def test_keyword_white_list_and_a_top_level_module(tmp_path):
    rules = {
        "rules": {
            "ArgsModifyRule": [
                {"func_name": "run", "arg_idx": 1, "arg_new": "'npu:1'", "arg_keyword": "dev", "white_list": ["'cpu'"]}
            ],
            "ModuleNameModifyRule": [{"old_name": "oldlib", "new_name": "newlib", "parent_module": ""}],
        }
    }
    text = "import oldlib\noldlib.x(oldlib)\nrun(a, dev='d'); run(a, 'cpu'); run(a, b)\n"
    assert (
        convert_with(tmp_path, rules, text)
        == "import newlib\nnewlib.x(newlib)\nrun(a, dev='npu:1'); run(a, 'cpu'); run(a, 'npu:1')\n"
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not valid JSON at line 1"),
        ("[]", '"rules"'),
        ('{"rules": {"Other": []}}', "Other is not supported customization!"),
        ('{"rules": {"FuncNameModifyRule": {}}}', "must be a list"),
        ('{"rules": {"FuncNameModifyRule": [1]}}', "FuncNameModifyRule[0]"),
        ('{"rules": {"FuncNameModifyRule": [{"old_name": "a"}]}}', "lacks new_name"),
        ('{"rules": {"FuncNameModifyRule": [{"old_name": "a", "new_name": "b", "x": 1}]}}', "unknown key 'x'"),
        ('{"rules": {"FuncNameModifyRule": [{"old_name": "a", "new_name": "b c"}]}}', "'b c'"),
        ('{"rules": {"ArgsModifyRule": [{"func_name": "a", "arg_idx": -1, "arg_new": "b"}]}}', "arg_idx is -1"),
        ('{"rules": {"ArgsModifyRule": [{"func_name": "a", "arg_idx": true, "arg_new": "b"}]}}', "arg_idx is True"),
        ('{"rules": {"ArgsModifyRule": [{"func_name": "a", "arg_idx": 0, "arg_new": "b ("}]}}', "arg_new is 'b ('"),
    ],
)
def test_mistakes_are_named(tmp_path, content, words):
    path = tmp_path / "rule.json"
    path.write_text(content)
    with pytest.raises(MigrateError) as caught:
        read_custom(path)
    assert words in str(caught.value)


def test_a_missing_or_binary_file(tmp_path):
    with pytest.raises(MigrateError, match="cannot be read"):
        read_custom(tmp_path / "none.json")
    (tmp_path / "b.json").write_bytes(b"\xff\xfe\x80")
    with pytest.raises(MigrateError, match="UTF-8"):
        read_custom(tmp_path / "b.json")
