// IPC handles and events of the simulated device: tests sharing between processes without a GPU.
#pragma once

#include <ferry/ipc/handles.hpp>
#include <ferry/space/copy.hpp>
#include <ferry/tensor/make_managed.hpp>
#include <support/patience.hpp>
#include <support/sim_space.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace support {

/// A file of a process as 64 bytes of data, like a driver's handle. Invalid when the file is closed.
struct sim_handle {
    std::uint64_t pid = 0, file = 0, inode = 0, bytes = 0;

    [[nodiscard]] static sim_handle of(int file) {
        struct stat facts = {};
        if (fstat(file, &facts) != 0) std::abort();
        return {static_cast<std::uint64_t>(getpid()), static_cast<std::uint64_t>(file), facts.st_ino,
                static_cast<std::uint64_t>(facts.st_size)};
    }
    /// -1 when it is stale.
    [[nodiscard]] int open() const {
        auto const path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(file);
        int const opened = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
        struct stat facts = {};
        if (opened >= 0 && (fstat(opened, &facts) != 0 || facts.st_ino != inode)) return close(opened), -1;
        return opened;
    }
    [[nodiscard]] std::vector<std::byte> bytes_of() const {
        std::vector<std::byte> all(ferry::ipc::event_handle_bytes);
        std::memcpy(all.data(), this, sizeof *this);
        return all;
    }
    [[nodiscard]] static sim_handle from(std::byte const* p) {
        sim_handle h;
        std::memcpy(&h, p, sizeof h);
        return h;
    }
};

/// An event for which streams of other processes can wait. As in CUDA, they wait for the latest record at the time of
/// the call.
class sim_event {
   public:
    sim_event() : file_{memfd_create("sim_event", MFD_CLOEXEC)} {
        if (file_ < 0 || ftruncate(file_, 4096) != 0) std::abort();
        map();
    }
    explicit sim_event(int file) : file_{file} { map(); }
    sim_event(sim_event const&) = delete;
    sim_event& operator=(sim_event const&) = delete;
    ~sim_event() {
        munmap(state_, 4096);
        close(file_);
    }
    [[nodiscard]] static std::shared_ptr<sim_event> open(std::byte const* handle) {
        int const file = sim_handle::from(handle).open();
        return file >= 0 ? std::make_shared<sim_event>(file) : nullptr;
    }
    [[nodiscard]] sim_handle handle() const { return sim_handle::of(file_); }

    /// Recorded on an idle stream while an earlier record is pending, it completes too early for waits for that record.
    static void record(std::shared_ptr<sim_event> const& e, sim_system& sim, ferry::stream_token on) {
        auto const turn = ++e->state_->recorded;
        auto const reach = [e, turn] {
            auto seen = e->state_->done.load();
            while (seen < turn && !e->state_->done.compare_exchange_weak(seen, turn)) {
            }
        };
        if (on.names_stream()) sim.queue(on, reach);
        else reach();
    }
    static void wait(std::shared_ptr<sim_event> const& e, sim_system& sim, ferry::stream_token on) {
        auto const until = [e, turn = e->state_->recorded.load()] {
            support::until("another process's event", [&] { return e->state_->done >= turn; });
        };
        if (on.names_stream()) sim.queue(on, until);
        else until();
    }

   private:
    struct state {
        std::atomic<std::uint64_t> recorded, done;
    };
    void map() {
        void* const at = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
        if (at == MAP_FAILED) std::abort();
        state_ = static_cast<state*>(at);
    }
    int file_;
    state* state_ = nullptr;
};

/// Faults of a back end, for tests of the tests.
enum class sim_fault { none, marks_last_stream_alone, closes_while_used, is_captured };

/// The back end of a simulated device that supports IPC. References the system.
class sim_shareable {
   public:
    explicit sim_shareable(sim_system& sim, sim_fault fault = sim_fault::none) : sim_{&sim}, fault_{fault} {}

    // ---- ferry::back_end ----

    [[nodiscard]] bool reaches(ferry::device d) const { return sim_->reaches(d); }
    [[nodiscard]] sim_memory allocate(ferry::device d, std::size_t n, ferry::stream_token on) const {
        return sim_->allocate(d, n, on);
    }
    void copy(ferry::copy_plan const& plan, void* dst, ferry::device to, void const* src, ferry::device from,
              ferry::stream_token on) const {
        sim_->copy(plan, dst, to, src, from, on);
    }
    void order(ferry::stream_token from, ferry::stream_token to) const { sim_->order(from, to); }
    void wait(ferry::stream_token on) const { sim_->wait(on); }

    // ---- ferry::ipc::handle_back_end ----

    class exported {
       public:
        exported(sim_system& sim, ferry::wire::memory description, ferry::stream_token ready_on)
            : sim_{&sim}, description_{std::move(description)} {
            record_ready(ready_on);
        }
        [[nodiscard]] ferry::wire::memory const& description() const { return description_; }
        void wait_ready(ferry::stream_token on) const {
            if (ready_ != nullptr && !on.is_no_sync()) sim_event::wait(ready_, *sim_, on);
        }
        void record_ready(ferry::stream_token on) {
            if (!on.names_stream()) return;
            if (ready_ == nullptr) ready_ = std::make_shared<sim_event>();
            sim_event::record(ready_, *sim_, on);
            description_.ready = ready_->handle().bytes_of();
        }
        [[nodiscard]] bool order_after(ferry::ipc::event_handle const& done, ferry::stream_token on) const {
            auto const e = sim_event::open(done.data());
            if (e != nullptr) sim_event::wait(e, *sim_, on);
            return e != nullptr;
        }

       private:
        sim_system* sim_;
        ferry::wire::memory description_;
        std::shared_ptr<sim_event> ready_;  // must outlive the waits for it
    };

    class opened {
       public:
        opened(sim_system& sim, sim_fault fault, sim_memory memory, std::uint64_t offset)
            : sim_{&sim}, fault_{fault}, memory_{std::move(memory)}, offset_{offset} {}
        opened(opened&& other) noexcept = default;
        opened& operator=(opened&&) = delete;
        ~opened() {
            if (done_ != nullptr && fault_ == sim_fault::none) sim_->finish(joined_);
        }
        [[nodiscard]] void* data() const { return static_cast<std::byte*>(memory_.data()) + offset_; }
        [[nodiscard]] ferry::device device() const { return memory_.block()->device(); }
        void wait_ready(ferry::wire::memory const& m, ferry::stream_token on) const {
            if (m.ready.empty() || on.is_no_sync()) return;
            auto const e = sim_event::open(m.ready.data());
            if (e == nullptr) throw ferry::error{ferry::errc::stale_handle, "sim", ferry::message{"the event is gone"}};
            sim_event::wait(e, *sim_, on);
        }
        [[nodiscard]] bool record_done(ferry::stream_token on, ferry::ipc::event_handle& out) {
            if (!on.names_stream()) return false;
            if (fault_ == sim_fault::is_captured)
                throw ferry::error{ferry::errc::capturing, "sim", ferry::message{"the stream is being captured"}};
            if (done_ == nullptr) {
                joined_ = sim_->make_stream(device().type);
                done_ = std::make_shared<sim_event>();
            }
            if (fault_ == sim_fault::marks_last_stream_alone) {
                sim_event::record(done_, *sim_, on);
            } else {
                sim_->order(on, joined_);
                sim_event::record(done_, *sim_, joined_);
            }
            auto const bytes = done_->handle().bytes_of();
            std::memcpy(out.data(), bytes.data(), out.size());
            return true;
        }

       private:
        sim_system* sim_;
        sim_fault fault_;
        sim_memory memory_;
        std::uint64_t offset_;
        ferry::stream_token joined_;  // ordered after all marked work
        std::shared_ptr<sim_event> done_;
    };

    [[nodiscard]] bool exports(ferry::device d) const { return d.type == ferry::device_type::cuda; }
    [[nodiscard]] char const* refusal(ferry::ipc::byte_range const& r, ferry::device) const {
        if (sim_->block_at(r.begin) == nullptr) return "the driver does not know it";
        return r.begin == pooled ? "it comes from a stream-ordered pool" : nullptr;
    }
    [[nodiscard]] sim_memory allocate_exportable(ferry::device d, std::size_t n, ferry::stream_token) const {
        return sim_->make_memory(d, n);
    }
    [[nodiscard]] exported export_memory(ferry::ipc::byte_range const& r, ferry::device d,
                                         ferry::stream_token ready_on) const {
        if (auto const* const why = refusal(r, d))
            ferry::detail::fail(ferry::errc::not_exportable, "sim_ipc", ferry::message{why});
        auto const block = sim_->block_at(r.begin);
        auto const handle = sim_handle::of(block->file());
        ferry::wire::memory m;
        m.kind = ferry::wire::memory_kind::cuda_legacy;
        m.type = d.type;
        m.device = {7, static_cast<std::uint8_t>(d.id)};
        m.id = handle.inode;
        m.allocation = handle.bytes;
        m.offset = static_cast<std::uint64_t>(r.begin - static_cast<std::byte*>(block->data()));
        m.length = r.length;
        m.handle = handle.bytes_of();
        return {*sim_, std::move(m), ready_on};
    }
    [[nodiscard]] bool passes_on(ferry::wire::memory const&) const { return passes_handles_on; }
    [[nodiscard]] exported pass_on(ferry::wire::memory m, ferry::stream_token ready_on) const {
        m.ready.clear();
        return {*sim_, std::move(m), ready_on};
    }
    [[nodiscard]] bool opens(ferry::wire::memory const& m) const {
        return m.kind == ferry::wire::memory_kind::cuda_legacy;
    }
    [[nodiscard]] opened open_memory(ferry::wire::memory const& m, ferry::ipc::opening const& how) const {
        if (before_open) before_open();
        auto const handle = sim_handle::from(m.handle.data());
        int const file = handle.open();
        if (file < 0) throw ferry::error{ferry::errc::stale_handle, "sim", ferry::message{"the allocation was freed"}};
        if (m.offset + m.length > handle.bytes) {
            close(file);
            throw ferry::error{ferry::errc::out_of_range, "sim", ferry::message{"outside of the allocation"}};
        }
        ++opens_made;
        ferry::device const where = how.where ? *how.where : ferry::device{m.type, m.device[1]};
        return {*sim_, fault_, sim_->make_memory(where, handle.bytes, file), m.offset};
    }

    /// Memory at this address has no handle.
    void const* pooled = nullptr;
    mutable int opens_made = 0;
    bool passes_handles_on = true;
    /// Called by each open; may throw.
    std::function<void()> before_open{};

   private:
    sim_system* sim_;
    sim_fault fault_;
};

static_assert(ferry::ipc::handle_back_end<sim_shareable>);

/// Floats on a simulated device, written late on `on`.
[[nodiscard]] inline ferry::managed_tensor written(sim_system& sim, ferry::stream_token on,
                                                   std::vector<float> const& values,
                                                   ferry::device where = ferry::device_type::cuda) {
    auto memory = sim.make_memory(where, 4096);
    if (!values.empty()) sim.write(on, memory.block(), values.data(), values.size() * sizeof(float));
    struct owner {
        sim_memory memory;
        std::int64_t shape[1];
    };
    return ferry::make_managed(owner{std::move(memory), {static_cast<std::int64_t>(values.size())}}, [where](owner& o) {
        return ferry::tensor_view{o.memory.data(), ferry::dtype_of<float>, {o.shape}, {}, where};
    });
}
/// The values in device memory, read on a stream.
[[nodiscard]] inline std::vector<float> read_on(sim_shareable& b, ferry::managed_tensor const& t,
                                                ferry::stream_token on) {
    std::vector<float> values(static_cast<std::size_t>(t.view().size()));
    std::int64_t const shape[] = {t.view().size()};
    ferry::copy({values.data(), {shape}}, t.view(), b, on);
    return values;
}

}  // namespace support
