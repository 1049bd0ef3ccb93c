--@ kind: index
--@ says: embedding 'embed': index 11 at position 1 is out of range for dimension 1 with size 10 (1..10)
--@ replace: {11} => {10}
local embed = torch.nn.Embedding(10, 3)
local y = embed(torch.tensor{11})
return y
