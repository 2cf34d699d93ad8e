// ferry: a simulated asynchronous device, which detects missing waits without a GPU.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/conformance/detail/box.hpp>
#include <ferry/space/copy_plan.hpp>
#include <ferry/space/host_copy.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>  // queued work is type-erased
#include <memory>      // queued work shares ownership of its memory
#include <utility>
#include <vector>  // queues, and memory of any size

namespace FERRY_NAMESPACE::conformance {

/// A simulated device with memory and streams; satisfies ferry::back_end.
///
/// Queued work runs only when `run`, `wait` or `wait_for_event` is called, so code that omits a required wait reads
/// poison, a fixed byte value. Host reads of device memory return poison; `elements` returns the address at which the
/// device stores the data. Starts no threads; not thread-safe.
class sim_device {
    struct block {
        std::vector<std::byte> shown, elements;
        bool is_host = false, is_released = false;
    };

   public:
    /// Constructs a device that has no memory and no streams.
    ///
    /// \param dev  simulated device
    explicit sim_device(device dev) noexcept : device_{dev}, outer_{std::exchange(current_, this)} {}
    sim_device(sim_device const&) = delete;
    sim_device& operator=(sim_device const&) = delete;
    ~sim_device() { current_ = outer_; }

    /// Returns the innermost simulated device of the calling thread, for adapters that record events in a test.
    ///
    /// \return  most recently constructed device that has not been destroyed; null if there is none
    [[nodiscard]] static sim_device* current() noexcept { return current_; }

    /// A point in the work of a stream. A default-constructed event is complete.
    class event {
        friend sim_device;
        std::size_t stream_ = 0, count_ = 0;
    };

    /// Owner of memory. Move-only. The device keeps the storage after the owner is destroyed, so that
    /// reads_after_release can count later reads.
    class memory {
       public:
        memory() = default;
        /// Constructs an owner of a block.
        ///
        /// \param of  block of the device
        explicit memory(std::shared_ptr<block> of) noexcept : block_{std::move(of)} {}
        /// Takes over the memory of another owner.
        ///
        /// \param other  owner; empty afterwards
        memory(memory&& other) noexcept : block_{std::exchange(other.block_, nullptr)} {}
        memory& operator=(memory&& other) noexcept {
            std::swap(block_, other.block_);
            return *this;
        }
        ~memory() {
            if (block_ != nullptr) block_->is_released = true;
        }
        /// Returns the address of the memory; the owner must not be empty. Host reads of device memory return poison.
        [[nodiscard]] void* data() const noexcept { return block_->shown.data(); }

       private:
        std::shared_ptr<block> block_;
    };

    /// Creates a stream.
    ///
    /// \return  new stream of the device, as a token of its device type
    [[nodiscard]] stream_token make_stream() {
        auto const handle = static_cast<std::uintptr_t>(0x1000) + 64 * ++named_;
        if (uses_cuda_streams(device_.type)) return stream_token::from_cuda_handle(handle);
        if (uses_rocm_streams(device_.type)) return stream_token::rocm_handle(handle);
        return stream_token::native(device_.type, handle);
    }
    /// Queues work on a stream.
    ///
    /// \param on    stream
    /// \param work  function that `run`, `wait` or `wait_for_event` calls
    void queue(stream_token on, std::function<void()> work) { queues_[index_of(on)].work.push_back(std::move(work)); }
    /// Runs the work that is queued on a stream at the time of the call, after the work on which it depends.
    ///
    /// \param on  stream
    void run(stream_token on) {
        auto const index = index_of(on);
        run_until(index, queues_[index].work.size());
    }
    /// Returns the storage that the device reads and writes.
    ///
    /// \param address  address in device memory
    /// \return         storage of the element at that address; null when `address` is not in memory of the device
    [[nodiscard]] std::byte* elements(void const* address) const noexcept {
        auto const* const b = find(address);
        return b == nullptr ? nullptr
                            : (*b)->elements.data() + (static_cast<std::byte const*>(address) - (*b)->shown.data());
    }
    /// Returns the number of copies that ran after the owner of their source was destroyed.
    [[nodiscard]] int reads_after_release() const noexcept { return reads_after_release_; }
    /// Returns whether the host wrote to device memory.
    [[nodiscard]] bool was_written_by_host() const noexcept {
        for (auto const& b : blocks_)
            for (auto const byte : b->shown)
                if (!b->is_host && byte != std::byte{detail::poison}) return true;
        return false;
    }

    // ---- operations of ferry::back_end ----

    /// Returns whether a device is supported.
    ///
    /// \param d  device
    /// \return   true for the host and the simulated device
    [[nodiscard]] bool reaches(device d) const noexcept {
        return d.type == device_type::cpu || is_same_device(d, device_);
    }
    /// Allocates memory.
    ///
    /// \param d      device
    /// \param bytes  size
    /// \return       memory filled with poison
    /// \throws std::bad_alloc  when the allocation fails
    [[nodiscard]] memory allocate(device d, std::size_t bytes, stream_token) {
        auto made = std::make_shared<block>();
        made->shown.assign(bytes + 1, std::byte{detail::poison});
        made->elements = made->shown;
        made->is_host = d.type == device_type::cpu;
        blocks_.push_back(made);
        return memory{std::move(made)};
    }
    /// Queues a copy. If `on` names no stream, or the source is host memory, completes the copy before returning.
    ///
    /// \param plan  copy plan
    /// \param dst   destination
    /// \param to    device of the destination
    /// \param src   source
    /// \param from  device of the source
    /// \param on    stream of the copy, or no stream
    void copy(copy_plan const& plan, void* dst, device to, void const* src, device from, stream_token on) {
        auto const keep_dst = keep(dst), keep_src = keep(src);
        void* const target = to.type == device_type::cpu ? dst : elements(dst);
        void const* const source = from.type == device_type::cpu ? src : elements(src);
        auto const now = [this, plan, target, source, keep_dst, keep_src] {
            if (keep_src != nullptr && keep_src->is_released) ++reads_after_release_;
            copy_on_host(plan, target, source);
        };
        if (on.names_stream() && from.type != device_type::cpu) queue(on, now);
        else now();
    }
    /// Makes later work on `to` run after all work already queued on `from`.
    ///
    /// \param from  stream whose queued work runs first
    /// \param to    stream whose later work runs after it
    void order(stream_token from, stream_token to) {
        auto const before = index_of(from);
        auto const upto = queues_[before].work.size();
        queue(to, [this, before, upto] { run_until(before, upto); });
    }
    /// Runs the work queued on a stream.
    ///
    /// \param on  stream
    void wait(stream_token on) { run(on); }
    /// Records an event after the work queued on a stream.
    ///
    /// \param on  stream; without one, the event is complete
    /// \return    event
    [[nodiscard]] event record_event(device, stream_token on) {
        event made;
        if (!on.names_stream()) return made;
        made.stream_ = index_of(on);
        made.count_ = queues_[made.stream_].work.size();
        return made;
    }
    /// Makes later work on a stream run after an event.
    ///
    /// \param e   event of this device
    /// \param on  stream; without one, the work before the event runs before the function returns
    void wait_for_event(event const& e, device, stream_token on) {
        auto const reach = [this, e] {
            if (e.count_ != 0) run_until(e.stream_, e.count_);
        };
        if (on.names_stream()) queue(on, reach);
        else reach();
    }

   private:
    struct stream {
        stream_token token;
        std::vector<std::function<void()>> work{};
        std::size_t done = 0;
    };
    [[nodiscard]] std::size_t index_of(stream_token token) {
        token = token.on_device(device_);
        for (std::size_t i = 0; i < queues_.size(); ++i)
            if (queues_[i].token == token) return i;
        queues_.push_back({token});
        return queues_.size() - 1;
    }
    void run_until(std::size_t index, std::size_t count) {
        while (queues_[index].done < count) {
            auto const next = queues_[index].work[queues_[index].done++];
            next();
        }
    }
    [[nodiscard]] std::shared_ptr<block> const* find(void const* address) const noexcept {
        auto const at = reinterpret_cast<std::uintptr_t>(address);
        for (auto const& b : blocks_)
            if (auto const first = reinterpret_cast<std::uintptr_t>(b->shown.data());
                at >= first && at < first + b->shown.size())
                return &b;
        return nullptr;
    }
    [[nodiscard]] std::shared_ptr<block> keep(void const* address) const noexcept {
        auto const* const found = find(address);
        return found != nullptr ? *found : nullptr;
    }

    device device_;
    std::uintptr_t named_ = 0;
    std::vector<std::shared_ptr<block>> blocks_;
    std::vector<stream> queues_;
    int reads_after_release_ = 0;
    sim_device* outer_;
    static inline thread_local sim_device* current_ = nullptr;
};

}  // namespace FERRY_NAMESPACE::conformance
