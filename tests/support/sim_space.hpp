// A simulated asynchronous device, which detects missing waits without a GPU: memory that the host cannot access,
// streams that run queued work late and in sequence, and a back end (ferry::back_end). Simulates device types 2, 3, 12
// and 13.
#pragma once

#include <ferry/space/back_end.hpp>
#include <support/pages.hpp>
#include <support/sim_stream.hpp>
#include <support/verb.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace support {

// Devices that the tests use.
using ferry::device;
using ferry::device_type;
using ferry::errc;
using ferry::stream_token;
using ferry::tensor_view;

/// Byte value of uninitialised memory; −1.2e17 as a float, a large number as an integer.
inline constexpr unsigned char poison = 0xDB;

/// Memory of a simulated device. The host's address is `data()`: inaccessible for types 2 and 12, accessible for 3 and 13.
/// The device uses the mapping at `device_side()`. Filled with poison on construction.
class sim_block {
   public:
    /// \param file  file of another block, to share its memory; this block closes it
    sim_block(ferry::device d, std::size_t bytes, page_file file = no_page_file)
        : device_{d}, bytes_{bytes}, mapped_{round_up(bytes)} {
        bool const is_fresh = file == no_page_file;
        file_ = is_fresh ? make_page_file(mapped_) : file;
        data_ = device_side_ = map_pages(file_, mapped_);
        if (!ferry::is_host_accessible(d)) {
            device_side_ = map_pages(file_, mapped_);
            protect_pages(data_, mapped_, page_access::none);
        }
        if (is_fresh) std::memset(device_side_, poison, mapped_);
    }
    sim_block(sim_block const&) = delete;
    sim_block& operator=(sim_block const&) = delete;
    ~sim_block() {
        if (device_side_ != data_) unmap_pages(device_side_, mapped_);
        unmap_pages(data_, mapped_);
        close_page_file(file_);
    }

    /// The file of the memory, for other mappings of it.
    [[nodiscard]] page_file file() const noexcept { return file_; }
    [[nodiscard]] void* data() const noexcept { return data_; }
    [[nodiscard]] std::byte* device_side() const noexcept { return device_side_; }
    [[nodiscard]] ferry::device device() const noexcept { return device_; }
    [[nodiscard]] std::size_t size() const noexcept { return bytes_; }
    [[nodiscard]] bool contains(void const* p) const noexcept {
        auto const address = reinterpret_cast<std::uintptr_t>(p), begin = reinterpret_cast<std::uintptr_t>(data_);
        return address >= begin && address < begin + mapped_;
    }

    /// The last write: work number `count` of `stream`. Used by the race detector.
    sim_stream const* writer = nullptr;
    std::uint64_t written_at = 0;
    /// The owner has released it.
    std::atomic<bool> is_released = false;

   private:
    [[nodiscard]] static std::size_t round_up(std::size_t bytes) noexcept {
        auto const page = page_size();
        return (std::max<std::size_t>(bytes, 1) + page - 1) / page * page;
    }

    ferry::device device_;
    std::size_t bytes_, mapped_;
    page_file file_;
    std::byte* data_;
    std::byte* device_side_;
};

class sim_system;

/// Owns a block, which counts as live. The mapping exists until the last queued work on it has run.
class sim_memory {
   public:
    sim_memory() = default;
    sim_memory(std::shared_ptr<sim_block> block, std::atomic<std::int64_t>& live) noexcept
        : block_{std::move(block)}, live_{&live} {
        *live_ += static_cast<std::int64_t>(block_->size());
    }
    sim_memory(sim_memory&& other) noexcept : block_{std::move(other.block_)}, live_{other.live_} {}
    sim_memory& operator=(sim_memory&&) = delete;
    ~sim_memory() {
        if (block_ == nullptr) return;
        block_->is_released = true;
        *live_ -= static_cast<std::int64_t>(block_->size());
    }
    [[nodiscard]] void* data() const noexcept { return block_->data(); }
    [[nodiscard]] std::shared_ptr<sim_block> const& block() const noexcept { return block_; }

   private:
    std::shared_ptr<sim_block> block_;
    std::atomic<std::int64_t>* live_ = nullptr;
};

/// Simulated devices and their back end. Tests queue work on streams (`write`, `close`), ferry calls the operations of
/// the back end. Counts what an exchange must not do: `calls`, `races`, `reads_after_release`.
class sim_system {
   public:
    explicit sim_system(std::initializer_list<ferry::device> devices) : devices_(devices) {}
    sim_system(sim_system const&) = delete;
    sim_system& operator=(sim_system const&) = delete;
    ~sim_system() {
        for (auto& gate : gates_) gate.open();  // lets queued work of a failed test run
        for (auto& stream : streams_) stream->finish();
    }

    // ---- functions for tests ----

    /// A stream for all devices of this type; exists as long as the system.
    ferry::stream_token make_stream(ferry::device_type type) { return make_stream(type, any_device); }
    /// A stream of one device; a token bound to another device is an error (`stream_token::bound_to`).
    ferry::stream_token make_stream(ferry::device d) { return make_stream(d.type, d.id); }
    /// Memory for a test, filled with poison.
    [[nodiscard]] sim_memory make_memory(ferry::device d, std::size_t bytes, page_file file = no_page_file) {
        return {new_block(d, bytes, file), live_bytes_};
    }
    /// Queues a function.
    template <class F>
    void queue(ferry::stream_token on, F f) {
        find(on).push(std::move(f));
    }
    /// The block that contains the address; null if there is none.
    [[nodiscard]] std::shared_ptr<sim_block> block_at(void const* address) { return find_block(address); }
    /// Queues a write of `bytes` to a block.
    void write(ferry::stream_token on, std::shared_ptr<sim_block> const& block, void const* bytes, std::size_t size) {
        auto& stream = find(on);
        std::vector<std::byte> kept(static_cast<std::byte const*>(bytes), static_cast<std::byte const*>(bytes) + size);
        stream.push([block, kept = std::move(kept)] { std::ranges::copy(kept, block->device_side()); });
        std::lock_guard const lock{mutex_};
        block->writer = &stream;
        block->written_at = stream.count();
    }
    /// Queues a gate: later work of the stream does not run before the gate is opened.
    [[nodiscard]] sim_gate close(ferry::stream_token on) {
        sim_gate gate;
        find(on).push([gate] { gate.pass(); });
        std::lock_guard const lock{mutex_};
        gates_.push_back(gate);
        return gate;
    }
    /// Waits until all queued work has run. Does not count as a call of the back end.
    void finish(ferry::stream_token on) {
        auto& stream = find(on);
        stream.finish();
        std::lock_guard const lock{mutex_};
        host_.merge(stream);
    }
    /// The value that the device reads at `address`.
    template <class T>
    [[nodiscard]] T read(void const* address) {
        T value;
        auto const block = find_block(address);
        std::memcpy(&value, block != nullptr ? device_side(*block, address) : address, sizeof value);
        return value;
    }
    /// Whether work queued on `later` after this call runs after the work that is queued on `earlier` now.
    [[nodiscard]] bool is_ordered(ferry::stream_token earlier, ferry::stream_token later) {
        auto& first = find(earlier);
        auto& second = find(later);
        std::lock_guard const lock{mutex_};
        return &first == &second || second.seen.of(first) >= first.count();
    }
    /// Blocks until the host waits for a stream, or until a time limit; for threads that open gates.
    void until_host_waits(std::chrono::milliseconds limit = std::chrono::milliseconds{500}) {
        auto const end = std::chrono::steady_clock::now() + limit;
        while (host_waits_ == 0 && std::chrono::steady_clock::now() < end)
            std::this_thread::sleep_for(std::chrono::milliseconds{1});
    }

    /// Makes the n-th of the following calls of an operation fail with errc::driver (1: the next; 0: none).
    void fail_at(verb which, int n) { fail_at_[index(which)] = n == 0 ? 0 : calls_[index(which)] + n; }
    [[nodiscard]] int calls(verb which) const { return calls_[index(which)]; }
    /// Number of calls that a driver would have received.
    [[nodiscard]] int calls() const {
        return calls(verb::allocate) + calls(verb::copy) + calls(verb::order) + calls(verb::wait);
    }
    [[nodiscard]] std::int64_t live_bytes() const { return live_bytes_; }
    /// Number of copies that were not ordered after the writes to their source.
    [[nodiscard]] int races() const { return races_; }
    /// Number of copies that ran after the owner of their source had released it (R50).
    [[nodiscard]] int reads_after_release() const { return reads_after_release_; }

    // ---- operations of ferry::back_end ----

    [[nodiscard]] bool reaches(ferry::device d) const {
        for (auto const known : devices_)
            if (ferry::is_same_device(known, d)) return true;
        return d.type == ferry::device_type::cpu;
    }
    [[nodiscard]] sim_memory allocate(ferry::device d, std::size_t bytes, ferry::stream_token) {
        called(verb::allocate);
        return {new_block(d, bytes), live_bytes_};
    }
    void copy(ferry::copy_plan const& plan, void* dst, ferry::device to, void const* src, ferry::device from,
              ferry::stream_token on) {
        called(verb::copy);
        auto const dst_block = block_of(dst, to), src_block = block_of(src, from);
        void* const target = dst_block != nullptr ? device_side(*dst_block, dst) : dst;
        void const* source = src_block != nullptr ? device_side(*src_block, src) : src;
        auto* const stream = on.names_stream() ? &find(on) : nullptr;
        check_race(stream, src_block.get());
        if (stream == nullptr) {
            count_read(src_block.get());
            copy_on_host(plan, target, source);
            return;
        }
        write_poison(plan, target);
        std::vector<std::byte, uncounted<std::byte>> staged;
        if (src_block == nullptr) source = stage(plan, source, staged);  // the caller may reuse host memory at once
        stream->push([this, plan, target, source, dst_block, src_block, staged = std::move(staged)] {
            count_read(src_block.get());
            copy_on_host(plan, target, source);
        });
        if (dst_block == nullptr) return;
        std::lock_guard const lock{mutex_};
        dst_block->writer = stream;
        dst_block->written_at = stream->count();
    }
    void order(ferry::stream_token from, ferry::stream_token to) {
        called(verb::order);
        auto& first = find(from);
        auto& second = find(to);
        sim_gate const reached;
        first.push([reached]() mutable { reached.open(); });
        second.push([reached] { reached.pass(); });
        std::lock_guard const lock{mutex_};
        second.seen.merge(first);
    }
    /// Its destructor waits for the work that is queued on the stream now.
    class mark_of_queue {
       public:
        mark_of_queue() = default;
        mark_of_queue(sim_system& sim, sim_gate reached, sim_clock at)
            : sim_{&sim}, reached_{std::move(reached)}, at_{std::move(at)} {}
        mark_of_queue(mark_of_queue&& other) noexcept
            : sim_{std::exchange(other.sim_, nullptr)}, reached_{other.reached_}, at_{std::move(other.at_)} {}
        mark_of_queue& operator=(mark_of_queue&& other) noexcept {
            std::swap(sim_, other.sim_);
            std::swap(reached_, other.reached_);
            std::swap(at_, other.at_);
            return *this;
        }
        ~mark_of_queue() {
            if (sim_ == nullptr) return;
            if (!reached_.is_open()) {
                ++sim_->host_waits_;
                reached_.pass();
                --sim_->host_waits_;
            }
            std::lock_guard const lock{sim_->mutex_};
            sim_->host_.merge(at_);
        }
        void order_before(ferry::stream_token on) {
            sim_->called(verb::order);
            auto& later = sim_->find(on);
            later.push([reached = reached_] { reached.pass(); });
            std::lock_guard const lock{sim_->mutex_};
            later.seen.merge(at_);
        }
        [[nodiscard]] bool is_done() const { return sim_ == nullptr || reached_.is_open(); }
        void discard() noexcept { sim_ = nullptr; }

       private:
        sim_system* sim_ = nullptr;
        sim_gate reached_{};
        sim_clock at_{};
    };
    [[nodiscard]] mark_of_queue mark(ferry::stream_token on) {
        called(verb::mark);
        sim_gate const reached;
        auto& stream = find(on);
        stream.push([reached] { reached.open(); });
        std::lock_guard const lock{mutex_};
        sim_clock at;
        at.merge(stream);
        return {*this, reached, std::move(at)};
    }
    void wait(ferry::stream_token on) {
        auto& stream = find(on);
        ++host_waits_;
        stream.finish();  // also when it fails: nothing runs after a failed wait
        --host_waits_;
        called(verb::wait);
        std::lock_guard const lock{mutex_};
        host_.merge(stream);
    }

   private:
    static constexpr std::int32_t any_device = -1;

    ferry::stream_token make_stream(ferry::device_type type, std::int32_t device_id) {
        std::lock_guard const lock{mutex_};
        auto& made = *streams_.emplace_back(std::make_unique<sim_stream>());
        auto const handle = reinterpret_cast<std::uintptr_t>(&made);
        made.token = ferry::uses_cuda_streams(type) ? ferry::stream_token::from_cuda_handle(handle)
                                                    : ferry::stream_token::native(type, handle);
        made.device_id = device_id;
        return made.token;
    }
    [[nodiscard]] static std::size_t index(verb which) noexcept { return static_cast<std::size_t>(which); }
    void called(verb which) {
        auto const i = index(which);
        if (++calls_[i] == fail_at_[i]) throw ferry::error{ferry::errc::driver, "sim", ferry::message{"injected"}};
    }
    [[nodiscard]] sim_stream& find(ferry::stream_token token) {
        std::lock_guard const lock{mutex_};
        for (auto& stream : streams_) {
            if (stream->token != token) continue;
            if (!token.is_default() && token.has_device() && stream->device_id != any_device &&
                stream->device_id != token.device_id())
                throw ferry::error{ferry::errc::stream, "sim", ferry::message{"stream of another device"}};
            return *stream;
        }
        using enum ferry::stream_token::kind;
        if (token.which() != legacy_default && token.which() != per_thread_default)
            throw std::logic_error{"no such stream"};
        auto& made = *streams_.emplace_back(std::make_unique<sim_stream>());
        made.token = token;
        return made;
    }
    [[nodiscard]] std::shared_ptr<sim_block> new_block(ferry::device d, std::size_t bytes, page_file file = no_page_file) {
        auto block = std::allocate_shared<sim_block>(uncounted<sim_block>{}, d, bytes, file);
        std::lock_guard const lock{mutex_};
        std::erase_if(blocks_, [](auto const& old) { return old.expired(); });
        blocks_.push_back(block);
        return block;
    }
    [[nodiscard]] std::shared_ptr<sim_block> find_block(void const* address) {
        std::lock_guard const lock{mutex_};
        for (auto const& known : blocks_)
            if (auto block = known.lock(); block != nullptr && block->contains(address)) return block;
        return nullptr;
    }
    /// Memory with a CPU device is used at its address, and faults when the host cannot access it.
    [[nodiscard]] std::shared_ptr<sim_block> block_of(void const* address, ferry::device d) {
        return d.type == ferry::device_type::cpu ? nullptr : find_block(address);
    }
    [[nodiscard]] static std::byte* device_side(sim_block const& block, void const* address) noexcept {
        return block.device_side() +
               (static_cast<std::byte const*>(address) - static_cast<std::byte const*>(block.data()));
    }
    void check_race(sim_stream const* reader, sim_block const* source) {
        std::lock_guard const lock{mutex_};
        if (source == nullptr || source->writer == nullptr || source->writer == reader) return;
        auto const seen = reader != nullptr ? reader->seen.of(*source->writer) : 0;
        if (std::max(seen, host_.of(*source->writer)) < source->written_at) ++races_;
    }
    void count_read(sim_block const* source) {
        if (source != nullptr && source->is_released) ++reads_after_release_;
    }
    /// Fills the elements that the plan writes, and no others, with poison.
    static void write_poison(ferry::copy_plan plan, void* target) {
        if (plan.kind == ferry::copy_kind::empty) return;
        std::vector<std::byte, uncounted<std::byte>> const unit(static_cast<std::size_t>(plan.unit), std::byte{poison});
        plan.src_offset = 0;
        for (int i = 0; i < plan.rank; ++i) plan.src_strides[i] = 0;
        if (plan.kind == ferry::copy_kind::transpose) plan.kind = ferry::copy_kind::gather;
        copy_on_host(plan, target, unit.data());
    }
    /// Stores the bytes that the plan reads; returns the address from which the plan can read them.
    template <class Bytes>
    [[nodiscard]] static void const* stage(ferry::copy_plan const& plan, void const* source, Bytes& staged) {
        std::int64_t low = plan.src_offset, high = plan.src_offset + plan.unit;
        for (int i = 0; i < plan.rank; ++i) {
            auto const reach = (plan.extents[i] - 1) * plan.src_strides[i];
            (reach < 0 ? low : high) += reach;
        }
        if (plan.counts_bits()) low >>= 3, high = (high + 7) / 8;
        auto const* const begin = static_cast<std::byte const*>(source) + low;
        staged.assign(begin, begin + (high - low));
        return staged.data() - low;
    }

    std::vector<ferry::device> devices_;
    std::mutex mutex_;
    std::vector<std::unique_ptr<sim_stream>> streams_;
    std::vector<sim_gate, uncounted<sim_gate>> gates_;
    std::vector<std::weak_ptr<sim_block>, uncounted<std::weak_ptr<sim_block>>> blocks_;
    sim_clock host_;
    std::array<std::atomic<int>, 5> calls_{};
    std::array<int, 5> fail_at_{};
    std::atomic<int> host_waits_ = 0, races_ = 0, reads_after_release_ = 0;
    std::atomic<std::int64_t> live_bytes_ = 0;
};

static_assert(ferry::back_end<sim_system>);

}  // namespace support
