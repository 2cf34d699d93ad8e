// Shares the weights of a model, 200 tensors of mixed types, with another process: one descriptor, and one mapping.
#include <ferry/column.hpp>
#include <ferry/ipc.hpp>
#include <ferry/wire/binary.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <utility>
#include <variant>
#include <vector>

namespace {

/// A weight that owns its elements.
template <class T>
ferry::managed_tensor weight(std::int64_t rows, std::int64_t columns, T value) {
    struct owner {
        std::vector<T> elements;
        std::int64_t shape[2];
    };
    return ferry::make_managed(owner{std::vector<T>(static_cast<std::size_t>(rows * columns), value), {rows, columns}},
                               [](owner& o) { return ferry::tensor_view{o.elements.data(), {o.shape}}; });
}

int importer(int from) {
    std::vector<std::byte> bytes(1 << 16);
    std::size_t length = 0;
    while (auto const n = read(from, bytes.data() + length, bytes.size() - length)) {
        if (n < 0) return 1;
        length += static_cast<std::size_t>(n);
    }
    bytes.resize(length);
    // [attach]
    std::vector<ferry::ipc::item> const model = ferry::ipc::attach_list(ferry::wire::from_bytes(bytes));
    auto const& last = std::get<ferry::managed_tensor>(model[199]);
    // [/attach]
    std::printf("%zu tensors in %zu bytes of descriptor, the last one %lld x %lld\n", model.size(), bytes.size(),
                static_cast<long long>(last.view().extent(0)), static_cast<long long>(last.view().extent(1)));
    return model.size() == 200 && last.as<std::int8_t const, 2>()(3, 1) == 99 ? 0 : 1;
}

}  // namespace

int main() {
    int down[2];
    if (pipe(down) != 0) return 1;
    if (fork() == 0) {
        close(down[1]);
        return importer(down[0]);
    }
    close(down[0]);
    // [share]
    std::vector<ferry::ipc::item> layers;  // ferry::managed_tensor or ferry::column
    for (int i = 0; i < 100; ++i) {
        layers.emplace_back(weight<float>(8, i + 1, 0.5f));
        layers.emplace_back(weight<std::int8_t>(4, i + 1, static_cast<std::int8_t>(i)));
    }
    ferry::ipc::shared const model = ferry::ipc::share(std::move(layers));  // one segment
    auto const bytes = ferry::wire::to_bytes(model.descriptor());
    // [/share]
    if (write(down[1], bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) return 1;
    close(down[1]);
    int status = 1;
    wait(&status);
    return model.descriptor().memories.size() == 1 && status == 0 ? 0 : 1;
}
