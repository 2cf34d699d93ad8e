// A second process that shares tensors of the GPU, for the rows of attaches.
#pragma once

#include <ferry/cuda/ipc.hpp>
#include <ferry/cuda/space.hpp>
#include <ferry/cuda/stream.hpp>
#include <ferry/ipc/session.hpp>
#include <ferry/ipc/share.hpp>
#include <ferry/space/buffer.hpp>
#include <ferry/tensor/make_managed.hpp>
#include <ferry/wire/binary.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <vector>

namespace bench {

/// Made before this process calls CUDA, which forks badly; shares a tensor each time that it is asked for a descriptor,
/// and holds them all until it is destroyed.
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

    /// `has_event`: the tensor is ready on a stream, so that there is an event to wait for.
    [[nodiscard]] ferry::wire::descriptor descriptor(bool has_event = false) const {
        std::uint64_t bytes = 0;
        if (write(to_, has_event ? "e" : "-", 1) != 1 || !read_all(from_, &bytes, sizeof bytes))
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
        char asked = 0;
        if (!read_all(to, &asked, 1)) return 0;  // nobody wants it
        try {
            std::int64_t const bytes = 16 << 20;
            ferry::cuda::shareable back_end;
            ferry::ipc::session session;
            ferry::cuda::stream const writes{0};
            std::vector<ferry::ipc::shared> all;
            do {
                ferry::buffer<ferry::cuda::device_space> memory{static_cast<std::size_t>(bytes),
                                                                ferry::cuda::device_space{0}};
                ferry::tensor_view const view{memory.data(),
                                              ferry::dtype_of<std::uint8_t>,
                                              ferry::shape_view{&bytes, 1},
                                              {},
                                              ferry::device{ferry::device_type::cuda}};
                ferry::stream_token const ready_on = asked == 'e' ? writes : ferry::already_ready;
                all.push_back(ferry::ipc::share(ferry::make_managed(std::move(memory), view),
                                                {.session = &session, .ready_on = ready_on}, back_end));
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
