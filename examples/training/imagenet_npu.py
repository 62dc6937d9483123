"""Train a classifier on ImageNet with npu: `imagenet_main.py` after the steps of the porting guide's quick start.

Lines that differ from the CUDA program carry the step: S1 to S6 of "single card", M1 to M15 of "several cards". The guide ends with
a program for each of the two; this one does both. Its two commands, small:

    python image_folder.py pictures
    python imagenet_npu.py pictures --width 8 --image-size 32 --batch-size 16 --lr 0.1 --epochs 2 --arch resnet50 \\
        --world-size 1 --rank 0 --workers 2 --momentum 0.9 --weight-decay 1e-4
    python imagenet_npu.py pictures --width 8 --image-size 32 --addr=127.0.0.1 --seed 49 --workers 2 --lr 0.1 --print-freq 1 \\
        --arch resnet50 --dist-backend hccl --multiprocessing-distributed --world-size 1 --batch-size 32 --epochs 2 --rank 0 \\
        --device-list 0,1 --amp

`--device cpu` (with `--dist-backend gloo`) trains the same on the CPU, to compare with.
"""

from __future__ import annotations

import os

import imagenet_parts as parts
import torch
import torch.backends.cudnn as cudnn
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.npu  # S1
from apex import amp  # M1
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

CALCULATE_DEVICE = "npu:0"  # S2

best_acc1 = 0.0

parser = parts.parser(__doc__)
parser.add_argument("--dist-backend", default="hccl", help="distributed backend")
# M2
parser.add_argument("--device", default="npu", choices=("npu", "cpu"), help="cpu: only to compare with")
parser.add_argument("--addr", default="127.0.0.1", help="address of the machine with rank 0")
parser.add_argument("--device-list", default="0,1", help="devices of this machine to train on")
parser.add_argument("--amp", action="store_true", help="mixed precision with apex")
parser.add_argument("--loss-scale", default=1024.0, type=float, help="for --amp; -1 means dynamic")
parser.add_argument("--opt-level", default="O2", help="for --amp: O0 to O3")


def device_id_to_process_device_map(device_list):
    """The device of each process (M3)."""
    return dict(enumerate(sorted(int(number) for number in device_list.split(","))))


def main():
    """Start one process, or one for each device."""
    args = parts.parse(parser)
    if args.amp and args.device != "npu":
        parser.error("--amp is for npu; leave it away with --device cpu")
    os.environ["MASTER_ADDR"] = args.addr  # M4
    os.environ.setdefault("MASTER_PORT", "29688")
    args.process_device_map = device_id_to_process_device_map(args.device_list)  # M5
    ngpus_per_node = len(args.process_device_map)
    if args.multiprocessing_distributed:
        args.world_size = ngpus_per_node * args.world_size
        mp.spawn(main_worker, nprocs=ngpus_per_node, args=(ngpus_per_node, args))
    else:
        main_worker(None, ngpus_per_node, args)


def main_worker(gpu, ngpus_per_node, args):
    """What each process does."""
    global best_acc1
    args.gpu = None if gpu is None else args.process_device_map[gpu]  # S3, M6
    args.loc = "cpu" if args.device == "cpu" else CALCULATE_DEVICE if gpu is None else f"npu:{args.gpu}"
    parts.set_seed(args)
    if "npu" in args.loc:  # S6, M8
        torch.npu.set_device(args.loc)
    if args.distributed:
        join_group(gpu, ngpus_per_node, args)
    train_dataset, val_dataset = parts.datasets(args)
    model, optimizer = prepare(parts.create_model(args, len(train_dataset.classes)), args)
    criterion = nn.CrossEntropyLoss().to(args.loc)  # S4, M11
    if args.resume:
        checkpoint = torch.load(args.resume, map_location=args.loc)
        best_acc1 = parts.restore(checkpoint, model, optimizer, args)
        if args.amp:
            amp.load_state_dict(checkpoint["amp"])
    cudnn.benchmark = True

    train_loader, val_loader = loaders(train_dataset, val_dataset, args)
    if args.evaluate:
        validate(val_loader, model, criterion, args)
        args.epochs = 0  # nothing to train
    for epoch in range(args.start_epoch, args.epochs):
        if args.distributed:
            train_loader.sampler.set_epoch(epoch)
        parts.adjust_learning_rate(optimizer, epoch, args)
        train(train_loader, model, criterion, optimizer, epoch, args)
        acc1 = validate(val_loader, model, criterion, args)
        is_best, best_acc1 = acc1 > best_acc1, max(acc1, best_acc1)
        if not args.multiprocessing_distributed or args.rank % ngpus_per_node == 0:
            state = parts.checkpoint(model, optimizer, epoch, best_acc1, args)
            if args.amp:  # M12
                state["amp"] = amp.state_dict()
            parts.save_checkpoint(state, is_best)
    if args.distributed:
        dist.destroy_process_group()


def join_group(gpu, ngpus_per_node, args):
    """Meet the other processes."""
    if args.rank == -1:
        args.rank = int(os.environ["RANK"])
    if args.multiprocessing_distributed:
        args.rank = args.rank * ngpus_per_node + gpu
        args.batch_size = args.batch_size // ngpus_per_node  # M8
        args.workers = (args.workers + ngpus_per_node - 1) // ngpus_per_node
    dist.init_process_group(backend=args.dist_backend, world_size=args.world_size, rank=args.rank)  # M7


def prepare(model, args):
    """The model on its device, in mixed precision if asked for, one copy in each process (S4, M11)."""
    model = model.to(args.loc)
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=args.momentum, weight_decay=args.weight_decay)
    if args.amp:
        scale = "dynamic" if args.loss_scale == -1 else args.loss_scale
        model, optimizer = amp.initialize(model, optimizer, opt_level=args.opt_level, loss_scale=scale)
    if args.distributed:
        model = nn.parallel.DistributedDataParallel(model, device_ids=None if args.loc == "cpu" else [args.gpu])
    return model, optimizer


def loaders(train_dataset, val_dataset, args):
    """Pictures in batches of one size (M10)."""
    train_sampler = DistributedSampler(train_dataset) if args.distributed else None
    settings = {"batch_size": args.batch_size, "num_workers": args.workers, "pin_memory": False, "drop_last": True}
    train_loader = DataLoader(train_dataset, shuffle=(train_sampler is None), sampler=train_sampler, **settings)
    val_loader = DataLoader(val_dataset, shuffle=True, **settings)
    return train_loader, val_loader


def to_device(images, target, args):
    """A batch where the model is, classes as 32-bit numbers (S5, M13, M15)."""
    if "npu" in args.loc:
        target = target.to(torch.int32)
    return images.to(args.loc, non_blocking=True), target.to(args.loc, non_blocking=True)


def train(train_loader, model, criterion, optimizer, epoch, args):
    """One epoch."""
    progress = parts.Progress(f"Epoch: [{epoch}]", len(train_loader), args)
    model.train()
    for i, (images, target) in enumerate(train_loader):
        images, target = to_device(images, target, args)
        output = model(images)
        loss = criterion(output, target)
        optimizer.zero_grad()
        if args.amp:  # M14
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
        else:
            loss.backward()
        optimizer.step()
        progress.step(i, loss, output, target)


def validate(val_loader, model, criterion, args):
    """Loss and hits on the pictures that are not trained with; returns Acc@1."""
    progress = parts.Progress("Test:", len(val_loader), args)
    model.eval()
    with torch.no_grad():
        for i, (images, target) in enumerate(val_loader):
            images, target = to_device(images, target, args)
            output = model(images)
            progress.step(i, criterion(output, target), output, target)
    loss, acc1, acc5 = progress.means()
    print(f" * Loss {loss:.6f} Acc@1 {acc1:.3f} Acc@5 {acc5:.3f}", flush=True)
    return acc1


if __name__ == "__main__":
    main()
