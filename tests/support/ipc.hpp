// For tests of sharing: tensors that own their elements, and the system resources that remain afterwards.
#pragma once

#include <ferry/ipc.hpp>
#include <ferry/ipc/detail/names.hpp>

#include <dirent.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace support {

/// A tensor of the floats 0, 1, 2, …, which owns its memory.
struct numbers {
    std::vector<float> values;
    std::vector<std::int64_t> shape;

    [[nodiscard]] ferry::tensor_view view() { return {values.data(), shape}; }
};

[[nodiscard]] inline numbers make_numbers(std::vector<std::int64_t> shape) {
    auto const n = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies{});
    numbers made{std::vector<float>(static_cast<std::size_t>(n)), std::move(shape)};
    std::iota(made.values.begin(), made.values.end(), 0.0f);
    return made;
}

[[nodiscard]] inline ferry::managed_tensor tensor(std::vector<std::int64_t> shape,
                                                  ferry::flags bits = ferry::flags::none) {
    return ferry::make_managed(make_numbers(std::move(shape)), [](numbers& n) { return n.view(); }, bits);
}

/// A view of a tensor from element `first`; owns the tensor.
[[nodiscard]] inline ferry::managed_tensor restrided(ferry::managed_tensor base, std::int64_t first,
                                                     std::vector<std::int64_t> shape,
                                                     std::vector<std::int64_t> strides) {
    struct owner {
        ferry::managed_tensor base;
        std::int64_t first;
        std::vector<std::int64_t> shape, strides;
    };
    return ferry::make_managed(owner{std::move(base), first, std::move(shape), std::move(strides)}, [](owner& o) {
        auto const& v = o.base.view();
        std::int64_t const step = v.dtype().bits / 8;
        return ferry::tensor_view{static_cast<void*>(static_cast<std::byte*>(const_cast<void*>(v.data())) + o.first * step),
                                  v.dtype(),
                                  o.shape,
                                  o.strides,
                                  v.device(),
                                  v.flags()};
    });
}

/// All elements of a float tensor on the host, row-major.
[[nodiscard]] inline std::vector<float> values(ferry::tensor_view const& v) {
    std::vector<float> all(static_cast<std::size_t>(v.size()));
    std::vector<std::int64_t> shape(v.shape().begin(), v.shape().end());
    if (!all.empty()) ferry::copy({all.data(), shape}, v.with_device(ferry::cpu, v.flags()));
    return all;
}
[[nodiscard]] inline std::vector<float> values(ferry::managed_tensor const& t) { return values(t.view()); }

/// The segments in /dev/shm of process `pid` (0: any).
[[nodiscard]] inline std::vector<std::string> segments(pid_t pid = 0) {
    std::vector<std::string> found;
    for (auto const& entry : std::filesystem::directory_iterator{ferry::ipc::detail::shared_memory_folder}) {
        auto const name =
            ferry::ipc::detail::parse_segment_name((std::filesystem::path{"/"} / entry.path().filename()).string());
        if (name && name->uid == geteuid() && (pid == 0 || name->pid == static_cast<std::uint32_t>(pid)))
            found.push_back(entry.path().filename());
    }
    return found;
}

/// Number of open file descriptors of this process.
[[nodiscard]] inline std::size_t open_files() {
    std::size_t n = 0;
    for ([[maybe_unused]] auto const& entry : std::filesystem::directory_iterator{"/proc/self/fd"}) ++n;
    return n;
}

/// Number of mapped segments of this process, from /proc/self/maps. Those that it made have no name there.
[[nodiscard]] inline std::size_t mapped_segments() {
    std::ifstream maps{"/proc/self/maps"};
    std::size_t n = 0;
    for (std::string line; std::getline(maps, line);) n += line.find("/dev/shm/ferry-") != line.npos || line.find("/dev/shm/#") != line.npos;
    return n;
}

/// Runs `f` in a forked child; returns its exit status (99: exception), or 128 + the signal that ended it.
template <class F>
[[nodiscard]] int in_child(F f) {
    pid_t const child = fork();
    if (child == 0) {
        int status = 99;
        try {
            status = f();
        } catch (...) {
        }
        _exit(status);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace support
