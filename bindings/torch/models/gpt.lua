-- GPT: a transformer that continues a sequence of tokens. Parameters are named and shaped as nanoGPT's.
local torch = torch
local error = torch._raise
local nn = torch.nn
local F, init = nn.functional, nn.init

local CausalSelfAttention = nn.class("CausalSelfAttention")
function CausalSelfAttention:init(a)
  rawset(self, "n_head", a.n_head)
  rawset(self, "dropout", a.dropout)
  self.c_attn = nn.Linear {a.n_embd, 3 * a.n_embd, bias = a.bias}
  self.c_proj = nn.Linear {a.n_embd, a.n_embd, bias = a.bias}
  self.resid_dropout = nn.Dropout(a.dropout)
end
function CausalSelfAttention:forward(x)
  local n, t, c = table.unpack(x:size())
  local function heads(part) return part:reshape({n, t, self.n_head, c // self.n_head}):transpose(2, 3) end
  local q, k, v = self.c_attn(x):split(c, 3)
  local y = F.scaled_dot_product_attention(heads(q), heads(k), heads(v),
    {dropout_p = self.training and self.dropout or 0.0, is_causal = true})
  return self.resid_dropout(self.c_proj(y:transpose(2, 3):reshape({n, t, c})))
end

local MLP = nn.class("MLP")
function MLP:init(a)
  self.c_fc = nn.Linear {a.n_embd, 4 * a.n_embd, bias = a.bias}
  self.gelu = nn.GELU()
  self.c_proj = nn.Linear {4 * a.n_embd, a.n_embd, bias = a.bias}
  self.dropout = nn.Dropout(a.dropout)
end
function MLP:forward(x) return self.dropout(self.c_proj(self.gelu(self.c_fc(x)))) end

local Block = nn.class("Block")
function Block:init(a)
  self.ln_1 = nn.LayerNorm({a.n_embd}, {bias = a.bias})
  self.attn = CausalSelfAttention(a)
  self.ln_2 = nn.LayerNorm({a.n_embd}, {bias = a.bias})
  self.mlp = MLP(a)
end
function Block:forward(x)
  x = x + self.attn(self.ln_1(x))
  return x + self.mlp(self.ln_2(x))
end

local GPT = nn.class("GPT")
local signature = "vocab_size=50257, block_size=1024, n_layer=12, n_head=12, n_embd=768, dropout=0.0, bias=true"
---A GPT; as it is without arguments it has the sizes of GPT-2 (124 million parameters).
---@param ... any vocab_size=50257, block_size=1024, n_layer=12, n_head=12, n_embd=768, dropout=0.0, bias=true
function GPT:init(...)
  local a = nn._args("GPT", signature, ...)
  if a.n_embd % a.n_head ~= 0 then
    error(("GPT: n_embd %d does not divide into %d heads"):format(a.n_embd, a.n_head), 3, "value")
  end
  rawset(self, "config", a)
  local blocks = {}
  for i = 1, a.n_layer do blocks[i] = Block(a) end
  self.transformer = nn.ModuleDict {
    {"wte", nn.Embedding(a.vocab_size, a.n_embd)},
    {"wpe", nn.Embedding(a.block_size, a.n_embd)},
    {"drop", nn.Dropout(a.dropout)},
    {"h", nn.ModuleList(blocks)},
    {"ln_f", nn.LayerNorm({a.n_embd}, {bias = a.bias})},
  }
  self.lm_head = nn.Linear {a.n_embd, a.vocab_size, bias = false}
  self.transformer.wte.weight = self.lm_head.weight  -- one table reads and writes tokens
  for _, m in ipairs(self:modules()) do
    if m._name == "Linear" or m._name == "Embedding" then init.normal_(m.weight, 0, 0.02) end
    if m._name == "Linear" and m.bias then init.zeros_(m.bias) end
  end
  for _, pair in ipairs(self:named_parameters()) do
    -- What is added to the stream of residuals starts smaller, the more layers there are.
    if pair[1]:find("c_proj.weight", 1, true) then init.normal_(pair[2], 0, 0.02 / math.sqrt(2 * a.n_layer)) end
  end
end

---Scores of the next token at every place, [N, T, vocab_size]; with targets (each place's next token) also the loss.
---@param ids any tokens [N, T], from 1
---@param targets? any
function GPT:forward(ids, targets)
  if ids.ndim ~= 2 then error("GPT: wants tokens [N, T], not shape " .. tostring(ids.shape), 2, "shape") end
  local t = ids:size(2)
  if t > self.config.block_size then
    error(("GPT: %d tokens are more than block_size, %d"):format(t, self.config.block_size), 2, "shape")
  end
  local parts = self.transformer
  local x = parts.drop(parts.wte(ids) + parts.wpe(torch.arange(1, t + 1, {device = ids.device})))
  for _, block in ipairs(parts.h) do x = block(x) end
  local scores = self.lm_head(parts.ln_f(x))
  if not targets then return scores end
  return scores, F.cross_entropy(scores:flatten(1, 2), targets:flatten())
end

---Continues sequences by drawing one token after the other.
---@param ids any tokens [N, T]
---@param count integer how many to add
---@param options? {temperature?: number, top_k?: integer} lower temperatures keep to what is likely; top_k draws only among the likeliest
function GPT:generate(ids, count, options)
  options = options or {}
  local temperature, was_training = options.temperature or 1.0, self.training
  self:eval()
  torch.no_grad(function()
    for _ = 1, count do
      local first = math.max(1, ids:size(2) - self.config.block_size + 1)
      local scores = self(ids[{{}, {first, -1}}])[{{}, -1}]:float() / temperature
      if options.top_k then
        local best = scores:topk(math.min(options.top_k, scores:size(2)), 2)
        scores = scores:masked_fill(scores:lt(best[{{}, {-1, -1}}]), -math.huge)
      end
      ids = torch.cat({ids, torch.multinomial(F.softmax(scores, 2), 1)}, 2)
    end
  end)
  self:train(was_training)
  return ids
end

---The parameters in two groups for an optimiser: matrices with weight decay, biases and norms without.
---@param weight_decay number
function GPT:parameter_groups(weight_decay)
  local decay, plain = {}, {}
  for _, p in ipairs(self:parameters()) do
    local group = p.ndim >= 2 and decay or plain
    group[#group + 1] = p
  end
  return {{params = decay, weight_decay = weight_decay}, {params = plain, weight_decay = 0.0}}
end

return {GPT = GPT}
