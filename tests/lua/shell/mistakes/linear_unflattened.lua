--@ kind: shape
--@ code: SHAPE-6
--@ says: linear 'fc': input has 4 features
--@ says: [2, 3, 4]
--@ says: would fit: fc(x:flatten(2))  -> [2, 5]
--@ fix: 1
local fc = torch.nn.Linear(12, 5)
local x = torch.ones(2, 3, 4)
local y = fc(x)
return y
