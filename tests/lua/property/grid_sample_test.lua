-- grid_sample in one pass gives what the composition of operations gives, which is used where a gradient is wanted.
test("grid_sample is the same with and without a gradient to come", function()
  torch.manual_seed(6)
  local F = torch.nn.functional
  for _, dtype in ipairs {torch.float32, torch.float64, torch.bfloat16} do
    for _, mode in ipairs {"nearest", "bilinear", "bicubic"} do
      for _, padding in ipairs {"zeros", "border", "reflection"} do
        for _, corners in ipairs {false, true} do
          for _, n in ipairs(mode == "bicubic" and {2} or {2, 3}) do
            local x = (n == 2 and torch.randn(2, 3, 5, 4) or torch.randn(2, 2, 3, 4, 2)):to(dtype)
            local grid = (n == 2 and torch.rand(2, 7, 11, 2) or torch.rand(2, 2, 3, 4, 3)) * 3.4 - 1.7
            grid = grid:to(dtype)
            local options = {mode = mode, padding_mode = padding, align_corners = corners}
            local plain = F.grid_sample(x, grid, options)
            local graph = F.grid_sample(x:clone():requires_grad_(), grid, options):detach()
            if dtype == torch.bfloat16 then  -- computed in float32 in one pass
              check.equal(plain.shape, graph.shape)
            else
              check.close(plain:flatten():tolist(), graph:flatten():tolist(), 1e-4)
            end
          end
        end
      end
    end
  end
end)
