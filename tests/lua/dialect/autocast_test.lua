-- Which operations autocast runs in float32 on the CPU, beside those that the conformance vectors hold.
test("autocast computes in float32 on the CPU what PyTorch does", function()
  local F = torch.nn.functional
  local x = torch.rand(4, 5):bfloat16() + 0.5
  local functions = {
    function() return F.ctc_loss(torch.rand(6, 2, 3):bfloat16():log_softmax(3), torch.tensor {{2, 3}, {3, 2}}, torch.tensor {6, 6}, torch.tensor {2, 2}) end,
    function() return F.kl_div(x, x) end, function() return torch.cdist(x, x) end, function() return x:prod() end,
    function() return x:prod(1) end, function() return x:quantile(0.5) end, function() return x:nanquantile(torch.tensor {0.5}) end,
  }
  for i, f in ipairs(functions) do
    check.equal(tostring(torch.autocast("cpu", {dtype = "bfloat16"}, f).dtype), "torch.float32", i)
  end
end)
