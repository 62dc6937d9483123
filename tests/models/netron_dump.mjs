// Opens an .om file with Netron's own reader and prints what Netron would show, as JSON.
// node netron_dump.mjs NETRON_FOLDER MODEL.om
//
// NETRON_FOLDER holds Netron's scripts and a package.json that calls them ES modules. Netron's window is left out: the reader
// gets the few things that it asks a window for (the file, a script, the table of operators).

import * as fs from 'fs';
import * as path from 'path';
import * as url from 'url';

const [folder, file] = process.argv.slice(2);
const load = (name) => import(url.pathToFileURL(path.join(folder, name)).href);

const base = await load('base.js');
const om = await load('om.js');

class Metadata {

    constructor(types) {
        this._types = new Map(types.map((type) => [type.name, type]));
    }

    type(name) {
        return this._types.get(name) || { name };
    }
}

class Context {

    constructor(data) {
        this.stream = new base.BinaryStream(data);
    }

    set(type, value) {
        this.type = type;
        this.value = value;
        return type;
    }

    async require(id) {
        return await load(`${path.basename(id)}.js`);
    }

    async metadata(name) {
        return new Metadata(JSON.parse(fs.readFileSync(path.join(folder, name), 'utf-8')));
    }
}

const describeType = (type) => type && { dtype: type.dataType, shape: type.shape.dimensions.map(Number) };

const describeValue = (value) => {
    const found = { name: value.name, type: describeType(value.type) };
    if (value.initializer) {
        const data = value.initializer.values;
        found.data = data ? Buffer.from(data).toString('base64') : null;
    }
    return found;
};

const describePlain = (value) => {
    if (typeof value === 'bigint') {
        return Number(value);
    }
    if (Array.isArray(value) || ArrayBuffer.isView(value)) {
        return Array.from(value, describePlain);
    }
    return value === null || typeof value !== 'object' ? value : String(value);
};

const describeArguments = (list) => Object.fromEntries(list.map((one) => [one.name, one.value.map(describeValue)]));

const describeNode = (node) => ({
    name: node.name,
    type: node.type.name,
    inputs: describeArguments(node.inputs),
    outputs: describeArguments(node.outputs),
    attributes: Object.fromEntries(node.attributes.map((one) => [one.name, describePlain(one.value)]))
});

const context = new Context(fs.readFileSync(file));
const factory = new om.ModelFactory();
if (await factory.match(context) !== 'om') {
    throw new Error(`Netron does not take ${file} for an offline model.`);
}
const model = await factory.open(context);
const graphs = model.modules.map((graph) => ({ name: graph.name, nodes: graph.nodes.map(describeNode) }));
process.stdout.write(JSON.stringify({ format: model.format, graphs }));
