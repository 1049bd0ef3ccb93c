-- What stands where in the order of short and long lines: against sorting each of them.

test("the k-th values and medians of short lines are those of the sorted line", function()
  torch.manual_seed(11)
  for _, dtype in ipairs {"float32", "float64", "bfloat16", "int64", "int32", "uint8"} do
    for _, n in ipairs {1, 2, 3, 7, 18, 33, 64, 65} do
      for _, rows in ipairs {3, 8, 65, 200} do
        local x = torch.randint(0, 20, {rows, n}):to(torch[dtype])
        local y = x:transpose(1, 2):contiguous():transpose(1, 2)   -- the same, lying otherwise
        for _, k in ipairs {1, (n + 1) // 2, n} do
          local sorted, order = torch.sort(x, {dim = 2, stable = true})
          for _, t in ipairs {x, y} do
            local value, at = torch.kthvalue(t, k, 2)
            check.equal(value:tolist(), sorted:select(2, k):tolist())
            check.equal(t:gather(2, at:unsqueeze(2)):squeeze(2):tolist(), value:tolist())
          end
        end
        local value, at = x:median(2)
        check.equal(value:tolist(), torch.sort(x, {dim = 2}):select(2, (n + 1) // 2):tolist())
        check.equal(x:gather(2, at:unsqueeze(2)):squeeze(2):tolist(), value:tolist())
      end
    end
  end
end)

test("a median is the first nan of its line, and nanmedian passes them by", function()
  torch.manual_seed(12)
  for _, dtype in ipairs {"float32", "float64", "bfloat16"} do
    for _, n in ipairs {1, 2, 5, 16, 31} do
      local x = torch.randn(70, n):to(torch[dtype])
      for row = 1, 70, 3 do
        for _ = 1, math.random(n) do x[{row, math.random(n)}] = 0 / 0 end
      end
      local value, at = x:median(2)
      local without, there = x:nanmedian(2)
      for row = 1, 70 do
        local line, numbers, nan = x[{row}]:tolist(), {}, nil
        for i, v in ipairs(line) do
          if v ~= v then nan = nan or i else numbers[#numbers + 1] = v end
        end
        table.sort(numbers)
        local middle = numbers[(#numbers + 1) // 2]
        if nan then check.equal(at[{row}]:item(), nan) else check.equal(value[{row}]:item(), middle) end
        if middle then
          check.equal(without[{row}]:item(), middle)
          check.equal(line[there[{row}]:item()], middle)
        else
          check.yes(without[{row}]:isnan():item())
        end
      end
    end
  end
end)
