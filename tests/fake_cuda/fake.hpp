// Interface of the fake CUDA runtime for tests: a machine with two GPUs, simulated on the host.
#pragma once

#include <ferry/cuda/api.hpp>

#include <support/toolkit.hpp>

#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace fake {

/// Queues work after all work on the stream. The work may block: it runs on the stream's own thread.
cudaError_t queue(cudaStream_t s, std::function<void()> work);

/// Waits for all work on the stream, if the stream still exists.
void settle(cudaStream_t s);

/// Queues work that writes `to` and reads `from`, which may be null. The work is passed the host's addresses of both:
/// device memory is inaccessible to the host. Memory that is freed when it runs is a fault, and the work does not run.
cudaError_t queue(cudaStream_t s, void* to, void const* from, std::size_t bytes,
                  std::function<void(std::byte* to, std::byte const* from)> work);

/// Reports a call or an access that a device does not support, and aborts, unless `caught` takes the fault.
void fault(std::string const& sentence);

/// Collects the faults of a scope, so that a test can check them.
class caught {
   public:
    caught();
    caught(caught const&) = delete;
    caught& operator=(caught const&) = delete;
    ~caught();
    [[nodiscard]] std::vector<std::string> sentences() const;

   private:
    friend void fault(std::string const&);
    mutable std::mutex mutex_;
    std::vector<std::string> sentences_;
};

/// Current counts of resources.
struct things {
    std::size_t blocks, streams, events, pools;
};
[[nodiscard]] things left();

/// Starts the threads of the default streams, so that tests that count threads include them.
void begin();
/// Waits until every stream has finished, and ends its thread.
void end();

}  // namespace fake
