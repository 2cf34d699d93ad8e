#pragma once
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

// The array type: two dimensions of float, reference-counted. It includes neither ferry nor DLPack.
struct grid {
    std::shared_ptr<void> owner;
    float* data;
    std::int64_t extents[2], strides[2];  // strides in elements
};

inline grid make_grid(std::int64_t rows, std::int64_t columns) {
    auto values = std::make_shared<std::vector<float>>(static_cast<std::size_t>(rows * columns));
    for (std::size_t i = 0; i < values->size(); ++i) (*values)[i] = static_cast<float>(i + 1);
    float* const data = values->data();
    return {std::move(values), data, {rows, columns}, {columns, 1}};
}
