// A second process that shares tensors and tables of the GPU, for the rows of attaches.
#pragma once

#include <ferry/column.hpp>
#include <ferry/cuda/ipc.hpp>
#include <ferry/cuda/space.hpp>
#include <ferry/cuda/stream.hpp>
#include <ferry/ipc/session.hpp>
#include <ferry/ipc/share.hpp>
#include <ferry/ipc/share_column.hpp>
#include <ferry/space/buffer.hpp>
#include <ferry/tensor/make_managed.hpp>
#include <ferry/wire/binary.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

namespace bench {

/// A table of columns of 1000 floats on the GPU, in one allocation or in one for each column.
struct gpu_table {
    using memory = ferry::buffer<ferry::cuda::device_space>;

    std::shared_ptr<std::vector<memory>> allocations = std::make_shared<std::vector<memory>>();
    ferry::column column;

    gpu_table(std::size_t columns, bool is_split) {
        constexpr std::int64_t rows = 1000, bytes = 4096;
        for (std::size_t i = 0; i < (is_split ? columns : 1); ++i)
            allocations->emplace_back(bytes * (is_split ? 1 : columns), ferry::cuda::device_space{0});
        std::vector<ferry::column_buffer> buffers;
        for (std::size_t k = 0; k < columns; ++k) {
            auto* const at = static_cast<std::byte*>(static_cast<void*>((*allocations)[is_split ? k : 0].data()));
            buffers.push_back({});
            buffers.push_back({at + (is_split ? 0 : k * bytes), rows * 4});
        }
        std::vector<ferry::column_parts> children;
        for (std::size_t k = 0; k < columns; ++k)
            children.push_back({.format = "f", .name = "x", .length = rows, .buffers = {&buffers[2 * k], 2}});
        ferry::column_buffer const none[] = {{}};
        column = ferry::make_column({.format = "+s", .length = rows, .buffers = none, .children = children},
                                    allocations, {ferry::device_type::cuda});
    }
};

/// Made before this process calls CUDA, which forks badly; shares a tensor or table each time that it is asked for a
/// descriptor, and holds them all until it is destroyed.
class exporter {
   public:
    exporter() {
        int to[2], from[2];
        if (pipe(to) != 0 || pipe(from) != 0) throw std::runtime_error{"pipe"};
        child_ = fork();
        if (child_ < 0) throw std::runtime_error{"fork"};
        if (child_ == 0) {
            close(to[1]), close(from[0]);
            _exit(serve(to[0], from[1]));
        }
        close(to[0]), close(from[1]);
        to_ = to[1], from_ = from[0];
    }
    exporter(exporter const&) = delete;
    exporter& operator=(exporter const&) = delete;
    ~exporter() {
        close(to_), close(from_);
        waitpid(child_, nullptr, 0);
    }

    /// `what`: a tensor; an `event_tensor`, which is ready on a stream, so that there is an event to wait for; a table
    /// of 1000 columns, in one allocation or in one for each column.
    enum kind : char { tensor, event_tensor, table, split_table };
    [[nodiscard]] ferry::wire::descriptor descriptor(kind what = tensor) const {
        std::uint64_t bytes = 0;
        if (write(to_, &what, 1) != 1 || !read_all(from_, &bytes, sizeof bytes))
            throw std::runtime_error{"the exporter is gone"};
        std::vector<std::byte> text(bytes);
        if (!read_all(from_, text.data(), text.size())) throw std::runtime_error{"the exporter is gone"};
        return ferry::wire::from_bytes(text);
    }

   private:
    static bool read_all(int fd, void* to, std::size_t bytes) {
        for (std::size_t done = 0; done < bytes;) {
            auto const got = read(fd, static_cast<char*>(to) + done, bytes - done);
            if (got <= 0) return false;
            done += static_cast<std::size_t>(got);
        }
        return true;
    }

    static int serve(int to, int from) {
        kind asked{};
        if (!read_all(to, &asked, 1)) return 0;  // no descriptor is requested
        try {
            std::int64_t const bytes = 16 << 20;
            ferry::cuda::shareable back_end;
            ferry::ipc::session session;
            ferry::cuda::stream const writes{0};
            std::vector<ferry::ipc::shared> all;
            do {
                if (asked == table || asked == split_table) {
                    gpu_table const made{1000, asked == split_table};
                    all.push_back(ferry::ipc::share(made.column, {.session = &session}, back_end));
                } else {
                    gpu_table::memory memory{static_cast<std::size_t>(bytes), ferry::cuda::device_space{0}};
                    ferry::tensor_view const view{memory.data(),
                                                  ferry::dtype_of<std::uint8_t>,
                                                  ferry::shape_view{&bytes, 1},
                                                  {},
                                                  ferry::device{ferry::device_type::cuda}};
                    ferry::stream_token const ready_on = asked == event_tensor ? writes : ferry::already_ready;
                    all.push_back(ferry::ipc::share(ferry::make_managed(std::move(memory), view),
                                                    {.session = &session, .ready_on = ready_on}, back_end));
                }
                auto const text = ferry::wire::to_bytes(all.back().descriptor());
                std::uint64_t const length = text.size();
                if (write(from, &length, sizeof length) != sizeof length) return 1;
                if (write(from, text.data(), text.size()) != static_cast<ssize_t>(text.size())) return 1;
            } while (read_all(to, &asked, 1));  // until the other one goes
            return 0;
        } catch (std::exception const& e) {
            std::fprintf(stderr, "exporter: %s\n", e.what());
            return 1;
        }
    }

    pid_t child_ = -1;
    int to_ = -1, from_ = -1;
};

}  // namespace bench
