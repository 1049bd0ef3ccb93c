-- Chinese words by which pages of help are found: {page, words}. The first page that has a word is shown, others are named.
local rows = {
  {"broadcasting", "广播 广播机制 广播规则"}, {"indexing", "索引 下标 切片 取元素"}, {"dtypes", "数据类型 类型 精度 数据精度"},
  {"autograd", "自动求导 自动微分 求导 计算图"}, {"gradient", "梯度 导数 偏导数"}, {"Tensor.backward", "反向传播 反向 后向传播"},
  {"random", "随机数 随机 随机种子"}, {"devices", "设备 显卡 显存"}, {"cuda", "英伟达"}, {"errors", "错误 报错 异常"},
  {"notes", "提示 警告 注意"}, {"scopes", "作用域 上下文"}, {"calls", "调用 参数传递 命名参数"}, {"operators", "运算符 算符 逐元素"},
  {"modules", "模块 网络 神经网络 模型 层"}, {"training", "训练 训练循环"}, {"tutorial", "教程 入门"}, {"lesson", "课程 课 练习"},
  {"cheatsheet", "速查 速查表"}, {"accuracy", "准确率 精确度 评估"}, {"progress", "进度 进度条"}, {"fusion", "融合 算子融合"}, {"quit", "退出 离开"},
  {"torch.tensor", "张量 创建张量"}, {"Tensor.shape", "形状 尺寸"}, {"view", "视图 变形"}, {"reshape", "重塑 改变形状"}, {"unsqueeze", "升维 增加维度"},
  {"squeeze", "降维 去掉维度 压缩维度"}, {"transpose", "转置"}, {"permute", "维度置换 交换维度"}, {"expand", "扩展"}, {"cat", "拼接 连接"},
  {"stack", "堆叠"}, {"split", "拆分 切分"}, {"matmul", "矩阵乘法 矩阵乘 矩阵相乘 点积"}, {"sum", "求和 总和 归约"}, {"mean", "均值 平均值 平均"},
  {"max", "最大值"}, {"min", "最小值"}, {"argmax", "最大值位置"}, {"std", "标准差"}, {"var", "方差"}, {"sort", "排序"}, {"topk", "前几个"},
  {"arange", "等差 序列 范围"}, {"torch.zeros", "全零"}, {"torch.ones", "全一"}, {"torch.eye", "单位矩阵"}, {"torch.manual_seed", "种子"},
  {"where", "条件选择"}, {"masked_fill", "掩码 遮罩 掩膜"}, {"gather", "聚集 收集"}, {"clamp", "截断 裁剪数值"}, {"exp", "指数"}, {"log", "对数"},
  {"sqrt", "平方根 开方"}, {"abs", "绝对值"}, {"softmax", "归一化指数"}, {"F.relu", "激活函数 激活"}, {"F.cross_entropy", "交叉熵 损失 损失函数"},
  {"F.mse_loss", "均方误差"}, {"nn.Linear", "线性层 全连接 全连接层"}, {"nn.Conv2d", "卷积 卷积层"}, {"nn.MaxPool2d", "池化"},
  {"nn.BatchNorm2d", "批归一化 批标准化"}, {"nn.LayerNorm", "层归一化"}, {"nn.Dropout", "随机失活 丢弃"}, {"nn.Embedding", "嵌入 词嵌入"},
  {"nn.MultiheadAttention", "注意力 注意力机制 多头注意力"}, {"nn.LSTM", "循环神经网络 长短期记忆"}, {"nn.Sequential", "顺序容器"},
  {"nn.DataParallel", "数据并行"}, {"nn.parallel.DistributedDataParallel", "分布式数据并行 分布式训练"}, {"torch.distributed.init_process_group", "分布式 进程组 多进程"},
  {"torch.distributed.all_reduce", "全归约"}, {"optim.SGD", "优化器 随机梯度下降 梯度下降"}, {"optim.lr_scheduler.StepLR", "学习率 学习率调度"},
  {"data.DataLoader", "数据加载 数据加载器 加载器 批次 批量"}, {"data.TensorDataset", "数据集"}, {"torch.no_grad", "不求导 关闭梯度"}, {"detach", "分离 截断梯度"},
  {"torch.save", "保存"}, {"torch.load", "加载 读取"}, {"torch.autocast", "混合精度"}, {"item", "标量 取数值"}, {"tolist", "转成表"}, {"clone", "复制 拷贝"},
  {"nn.utils.clip_grad_norm_", "梯度裁剪"}, {"Tensor.requires_grad", "叶子 叶子张量 需要梯度"}, {"torch.fork", "并行"},
}

---The pages that a Chinese word leads to, best first: those that have the word, else those of words that it is a part of, or
---that are a part of it.
---@param asked string
---@return string[]
return function(asked)
  asked = asked:gsub("%s+", "")
  local same, near = {}, {}
  for _, row in ipairs(rows) do
    local exact, close = false, false
    for word in row[2]:gmatch "%S+" do
      exact = exact or word == asked
      close = close or word:find(asked, 1, true) ~= nil or #word >= 6 and asked:find(word, 1, true) ~= nil
    end
    if exact then same[#same + 1] = row[1] elseif close then near[#near + 1] = row[1] end
  end
  return #same > 0 and same or near
end
