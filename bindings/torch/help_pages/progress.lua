-- What help knows of torch.progress.
return {
  {"torch.progress", "iterable, {desc=nil, total=nil, unit=\"\", leave=true, disable=false, initial=0, file=io.stderr}",
    "Shows how far a loop is, as tqdm does: for x, y in torch.progress(loader) do. It goes over loaders, datasets, lists, a number of steps, a tensor's rows, and iterators such as ipairs(t). In a terminal it is a bar, which print writes above, in a log a line a minute; of several ranks only rank 0 shows it. A bar in a variable has set_postfix{loss = loss}, set_description(text), write(..); torch.progress{total = n} is moved by update(n) and ended by close().",
    see = "data.DataLoader, torch.plot",
    example = "sum = 0\nfor i in torch.progress(4) do sum = sum + i end\nsum --> 10"},
}
