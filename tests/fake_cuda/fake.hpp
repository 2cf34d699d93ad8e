// What tests ask of the fake of CUDA's runtime, beyond the runtime: a machine with two GPUs, played by the host.
#pragma once

#include <ferry/cuda/api.hpp>

#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace fake {

/// Queues work behind all that is on the stream. May wait: it runs on the stream's own thread.
cudaError_t queue(cudaStream_t s, std::function<void()> work);

/// Waits for all that is on the stream, if there still is one.
void settle(cudaStream_t s);

/// Queues work that writes `to` and reads `from`, which may be null. The work is told where it finds them: device
/// memory is closed to the host. What is not alive when it runs is a fault, and it does not run.
cudaError_t queue(cudaStream_t s, void* to, void const* from, std::size_t bytes,
                  std::function<void(std::byte* to, std::byte const* from)> work);

/// Makes calls illegal, or touches memory, in a way that a device would not survive: says so and aborts, unless
/// `caught` takes it.
void fault(std::string const& sentence);

/// Takes the faults of a scope, so that a test can ask for them.
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

/// What there is now.
struct things {
    std::size_t blocks, streams, events, pools;
};
[[nodiscard]] things left();

/// Starts the threads of the default streams, which tests that count threads then know.
void begin();
/// Lets every stream finish, and its thread end.
void end();

}  // namespace fake
