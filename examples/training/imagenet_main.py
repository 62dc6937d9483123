"""Train a classifier on ImageNet with CUDA: where the quick start of the porting guide begins.

`imagenet_npu.py` is the same program after the steps of the guide, and `ms_fmk_transplt -i imagenet_main.py -o OUT` makes a third
form. Without CUDA it trains on the CPU, which is what both are compared with:

    python image_folder.py pictures
    python imagenet_main.py pictures -a resnet18 --width 8 --image-size 32 -b 16 --epochs 2 --seed 1
"""

from __future__ import annotations

import os

import imagenet_parts as parts
import torch
import torch.backends.cudnn as cudnn
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

best_acc1 = 0.0

parser = parts.parser(__doc__)
parser.add_argument("--gpu", default=None, type=int, help="GPU to use")
parser.add_argument("--dist-backend", default="nccl", help="distributed backend")


def main():
    """Start one process, or one for each GPU."""
    args = parts.parse(parser)
    if args.seed is not None:
        cudnn.deterministic = True
    ngpus_per_node = torch.cuda.device_count()
    if args.multiprocessing_distributed:
        args.world_size = ngpus_per_node * args.world_size
        mp.spawn(main_worker, nprocs=ngpus_per_node, args=(ngpus_per_node, args))
    else:
        main_worker(args.gpu, ngpus_per_node, args)


def main_worker(gpu, ngpus_per_node, args):
    """What each process does."""
    global best_acc1
    args.gpu = gpu
    parts.set_seed(args)
    if args.gpu is not None:
        print(f"Use GPU: {args.gpu} for training")
    if args.distributed:
        join_group(gpu, ngpus_per_node, args)
    train_dataset, val_dataset = parts.datasets(args)
    model = place(parts.create_model(args, len(train_dataset.classes)), ngpus_per_node, args)
    criterion = nn.CrossEntropyLoss()
    if torch.cuda.is_available():
        criterion = criterion.cuda(args.gpu)
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=args.momentum, weight_decay=args.weight_decay)
    if args.resume:
        loc = f"cuda:{args.gpu}" if args.gpu is not None else None
        best_acc1 = parts.restore(torch.load(args.resume, map_location=loc), model, optimizer, args)
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
            parts.save_checkpoint(parts.checkpoint(model, optimizer, epoch, best_acc1, args), is_best)
    if args.distributed:
        dist.destroy_process_group()


def join_group(gpu, ngpus_per_node, args):
    """Meet the other processes."""
    if args.dist_url == "env://" and args.rank == -1:
        args.rank = int(os.environ["RANK"])
    if args.multiprocessing_distributed:
        args.rank = args.rank * ngpus_per_node + gpu
    dist.init_process_group(
        backend=args.dist_backend, init_method=args.dist_url, world_size=args.world_size, rank=args.rank
    )


def place(model, ngpus_per_node, args):
    """The model where it is trained: one GPU of several processes, one GPU, or all GPUs of this process."""
    if not torch.cuda.is_available():
        print("using CPU, this will be slow")
        return model
    if args.distributed:
        torch.cuda.set_device(args.gpu)
        model.cuda(args.gpu)
        args.batch_size = args.batch_size // ngpus_per_node
        args.workers = (args.workers + ngpus_per_node - 1) // ngpus_per_node
        return nn.parallel.DistributedDataParallel(model, device_ids=[args.gpu])
    if args.gpu is not None:
        torch.cuda.set_device(args.gpu)
        return model.cuda(args.gpu)
    return nn.DataParallel(model).cuda()


def loaders(train_dataset, val_dataset, args):
    """Pictures in batches."""
    train_sampler = DistributedSampler(train_dataset) if args.distributed else None
    train_loader = DataLoader(
        train_dataset,
        batch_size=args.batch_size,
        shuffle=(train_sampler is None),
        num_workers=args.workers,
        pin_memory=torch.cuda.is_available(),
        sampler=train_sampler,
    )
    val_loader = DataLoader(
        val_dataset, batch_size=args.batch_size, num_workers=args.workers, pin_memory=torch.cuda.is_available()
    )
    return train_loader, val_loader


def to_device(images, target, args):
    """A batch where the model is."""
    if args.gpu is not None:
        images = images.cuda(args.gpu, non_blocking=True)
    if torch.cuda.is_available():
        target = target.cuda(args.gpu, non_blocking=True)
    return images, target


def train(train_loader, model, criterion, optimizer, epoch, args):
    """One epoch."""
    progress = parts.Progress(f"Epoch: [{epoch}]", len(train_loader), args)
    model.train()
    for i, (images, target) in enumerate(train_loader):
        images, target = to_device(images, target, args)
        output = model(images)
        loss = criterion(output, target)
        optimizer.zero_grad()
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
