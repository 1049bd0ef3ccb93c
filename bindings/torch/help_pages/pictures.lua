-- What help knows of the classes of torch.utils.data that read files, and of data.transforms.
local rows = {
  {"data.CsvDataset", "path, {target=nil, features=nil, chunk=8192, header=nil, names=nil, columns=nil, dtype=nil, delimiter=nil, quote='\"', comment=nil, decimal='.', na_values=nil, skip_rows=0, max_rows=nil}",
    "A table of text that is read while it is used, in pieces: items are rows of features (float32), or {row, target}; set:chunks() gives the pieces as tables.", see = "data.read_csv, data.DataLoader"},
  {"data.ImageFolder", "root, {transform=nil, target_transform=nil, loader=data.default_loader, extensions=nil, is_valid_file=nil, allow_empty=false, flat=false}",
    "A folder with a folder of pictures for each class: items are {picture, class}, classes from 1 in sorted order; it has classes, class_to_idx, samples and targets. flat=true: pictures that lie in the folder itself; items are {picture, path}.", see = "data.transforms, data.DataLoader, data.read_image, data.glob, data.make_grid"},
  {"data.DatasetFolder", "root, loader, extensions, {transform=nil, target_transform=nil, is_valid_file=nil, allow_empty=false}",
    "A folder with a folder of files for each class: items are {loader(path), class}.", see = "data.ImageFolder"},
  {"data.transforms", "", "Changes of pictures on their way into training, as torchvision.transforms.v2; data.transforms.functional has them as functions.", see = "data.ImageFolder"},
}

local batch = "[.., C, H, W] -> [.., C, size]"
local same = "[.., C, H, W] -> the same shape"
-- name, arguments, sentence, rule, example's arguments and shape
for _, row in ipairs {
  {"Transform", "", "The base of transforms; data.transforms.class(\"Mine\") makes one of one's own."},
  {"Compose", "transforms", "Several transforms or functions, one after the other; labels pass through.", nil, "{T.CenterCrop(4), T.Resize(2)}", "[3, 2, 2]"},
  {"RandomApply", "transforms, p=0.5", "A list of transforms, all or none of them, with probability p.", nil, "{T.Resize(8)}", "[3, 8, 8]"},
  {"RandomChoice", "transforms, p=nil", "One of a list of transforms, drawn each time; p weighs them.", nil, "{T.Resize(4)}", "[3, 4, 4]"},
  {"RandomOrder", "transforms", "A list of transforms in an order drawn each time."},
  {"Lambda", "lambd", "A function as a transform."},
  {"Identity", "", "Changes nothing.", same, "", "[3, 8, 8]"},
  {"Resize", "size, interpolation=\"bilinear\", max_size=nil, antialias=true", "Resized to {height, width}, or with one number the shorter side to it.", batch, "4", "[3, 4, 4]"},
  {"CenterCrop", "size", "The middle of a picture.", batch, "{4, 6}", "[3, 4, 6]"},
  {"RandomCrop", "size, padding=nil, pad_if_needed=false, fill=0, padding_mode=\"constant\"", "A part drawn at random, after padding.", batch, "8, {padding = 2}", "[3, 8, 8]"},
  {"RandomResizedCrop", "size, scale={0.08, 1}, ratio={3/4, 4/3}, interpolation=\"bilinear\", antialias=true", "A part of random area and shape, resized: what networks for ImageNet are trained on.", batch, "4", "[3, 4, 4]"},
  {"RandomHorizontalFlip", "p=0.5", "Left and right exchanged with probability p.", same, "", "[3, 8, 8]"},
  {"RandomVerticalFlip", "p=0.5", "Top and bottom exchanged with probability p.", same, "", "[3, 8, 8]"},
  {"Pad", "padding, fill=0, padding_mode=\"constant\"", "A margin around: constant, edge, reflect or symmetric.", nil, "1", "[3, 10, 10]"},
  {"RandomRotation", "degrees, interpolation=\"nearest\", expand=false, center=nil, fill=0", "Turned by an angle drawn from -degrees..degrees or {low, high}.", nil, "10", "[3, 8, 8]"},
  {"RandomAffine", "degrees, translate=nil, scale=nil, shear=nil, interpolation=\"nearest\", fill=0, center=nil", "Turned, moved (by shares of the size), scaled and sheared at random.", same, "10, {translate = {0.1, 0.1}}", "[3, 8, 8]"},
  {"ToDtype", "dtype, scale=false", "In another dtype; scale = true brings 0..255 to 0..1 and back.", same, "torch.float32, {scale = true}", "[3, 8, 8]"},
  {"ConvertImageDtype", "dtype", "In another dtype, scaled: 0..255 of uint8 is 0..1 of floating point.", same, "torch.float32", "[3, 8, 8]"},
  {"ToTensor", "", "As float32 from 0 to 1.", same, "", "[3, 8, 8]"},
  {"Normalize", "mean, std", "(x - mean) / std of each channel.", same},
  {"Grayscale", "num_output_channels=1", "Grey, in one channel or three alike.", "[.., 3, H, W] -> [.., 1, H, W]", "", "[1, 8, 8]"},
  {"RandomGrayscale", "p=0.1", "Grey with probability p, in as many channels.", same, "", "[3, 8, 8]"},
  {"RandomInvert", "p=0.5", "The negative with probability p.", same, "", "[3, 8, 8]"},
  {"ColorJitter", "brightness=nil, contrast=nil, saturation=nil, hue=nil", "Brightness, contrast, saturation and hue changed by random factors from 1 - v to 1 + v (hue -v to v), in random order.", same, "0.2, 0.2, 0.2, 0.1", "[3, 8, 8]"},
  {"GaussianBlur", "kernel_size, sigma={0.1, 2}", "Blurred by a bell of random width.", same, "3", "[3, 8, 8]"},
  {"RandomErasing", "p=0.5, scale={0.02, 0.33}, ratio={0.3, 3.3}, value=0", "A random rectangle replaced by a value, or by noise (value = \"random\").", same, "1", "[3, 8, 8]"},
} do
  rows[#rows + 1] = {"data.transforms." .. row[1], row[2], row[3], rule = row[4], see = "data.transforms, data.ImageFolder",
    example = row[5] and ("T = data.transforms\nT.%s(%s)(torch.zeros(3, 8, 8, {dtype=\"uint8\"})).shape --> %s"):format(row[1], row[5], row[6])}
end

return rows
