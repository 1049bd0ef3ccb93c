-- `tycho --process DESCRIPTOR PARENT NAME`: a process of torch.multiprocessing; nobody types it.
return function(descriptor, parent) return require "torch.multiprocessing.child"(descriptor, parent) end
