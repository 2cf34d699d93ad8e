// ferry: what is behind a session, and one share on its exporter's side.
#pragma once

#include <ferry/ipc/detail/import.hpp>

#include <list>
#include <thread>  // waits are polled

namespace FERRY_NAMESPACE::ipc::detail {

/// A tensor of a descriptor, in a memory that begins at `begin`; null: it is empty.
[[nodiscard]] inline tensor_view view_of(wire::tensor const& t, std::byte* begin, ferry::device where) noexcept {
    auto const strides = t.strides.empty() ? strides_view{} : strides_view{t.strides};
    void* const data = begin == nullptr ? nullptr : begin + t.byte_offset;
    return {data, t.dtype, t.shape, strides, where, known(t.flags) & ~flags::is_copied};
}

class session_state;

/// Whether one allocation of a device is meant, from the handle of its exporter.
[[nodiscard]] inline bool is_same_allocation(wire::memory const& a, wire::memory const& b) noexcept {
    return a.kind == b.kind && a.id == b.id && a.allocation == b.allocation && a.device == b.device &&
           a.handle == b.handle;
}

/// A control page, and the memories whose descriptions name it. Held by `shared`, by the exporter's own tensors, and by
/// the session for as long as importers have device memory mapped.
struct share_state {
    struct memory {
        wire::memory description;
        std::byte* begin;      // of the exported range
        std::uint32_t number;  // in the descriptor of the whole share
    };

    std::shared_ptr<session_state> session{};          // first: the others need it to die
    std::shared_ptr<void const> copy{};                // memory of copies off the host
    std::shared_ptr<void const> owner{};               // of memory that is shared where it lies
    std::shared_ptr<region> where{};                   // the control page, and the data of the host
    std::vector<std::unique_ptr<exported>> handles{};  // off the host; die before what they name
    std::string name{};
    std::vector<memory> memories{};
    ferry::device device{};
    std::uint64_t id = 0;    // as in the name
    process_mark process{};  // that may close it: not a forked child
    bool is_read_only = false;
    bool is_frozen = false;     // or will be
    bool is_passed_on = false;  // memory of a device that another process exports
    std::atomic<bool> is_open = false;

    // Of the whole share, in the first of its states.
    wire::descriptor description{};
    std::array<std::int64_t, 1> bytes{};  // of the first memory
    share_copies copied{};
    std::vector<std::shared_ptr<share_state>> others{};

    /// An element for the session's list, made in advance, because closing does not fail.
    std::list<std::shared_ptr<share_state>> place_among_condemned{nullptr};

    [[nodiscard]] control_page& control() const noexcept { return where->memory.control(); }
    [[nodiscard]] int locks() const noexcept { return where->memory.locks(); }
    /// The tensor; of a column: the bytes of its first memory.
    [[nodiscard]] tensor_view view() const noexcept {
        auto* const begin = memories[0].begin;
        if (auto const* const t = std::get_if<wire::tensor>(&description.root)) return view_of(*t, begin, device);
        return {static_cast<void*>(begin), dtype_of<std::uint8_t>, bytes, {}, device, flags::read_only};
    }
};

class session_state {
   public:
    explicit session_state(session_options const& how) noexcept
        : segments_{how.segments}, imports_{how.unused_mappings, how.unused_bytes} {}

    /// This process; after a fork the child's, which has shared nothing.
    [[nodiscard]] wire::origin me(std::source_location where) {
        std::unique_lock lock{mutex_};
        if (process_.is_here()) return me_;
        bool const is_child{process_};
        me_ = this_process(where);
        if (is_child) static_cast<void>(new condemned_list{std::move(condemned_)});  // the parent's: never freed here
        process_ = process_mark::here();
        if (is_child) {
            shares_.clear();
            is_swept_ = false;
            lock.unlock();
            imports_.detach();
            lock.lock();
        }
        return me_;
    }

    /// Once for every process, before its first segment.
    void sweep_once() noexcept {
        if (!is_swept_.exchange(true)) static_cast<void>(sweep());
    }
    /// Calls `f`. If it fails because memory or file descriptors are short, or a mapping is in its way, calls it again
    /// after `make_room`.
    template <class F>
    [[nodiscard]] auto with_room(F f) {
        try {
            return f();
        } catch (error const& e) {
            bool const may_help = e.code() == errc::already_mapped || e.code() == errc::out_of_memory;
            if (!may_help || !make_room()) throw;
        }
        return f();
    }
    /// Frees what nothing uses: unused mappings, and names that ended exporters have left. False when there was none.
    bool make_room() noexcept {
        bool is_any = imports_.trim();
        std::lock_guard const lock{sweeping_};
        int left = 16;  // bounded, whatever lies in the folder
        do {
            is_any |= detail::sweep(swept_to_) != 0;
        } while (--left != 0 && swept_to_ != 0);
        return is_any;
    }
    void add(std::shared_ptr<share_state> const& s) {
        std::lock_guard const lock{mutex_};
        shares_.emplace(s->id, s);
    }
    [[nodiscard]] std::shared_ptr<share_state> find(std::uint64_t id) noexcept {
        std::lock_guard const lock{mutex_};
        auto const found = shares_.find(id);
        return found != shares_.end() ? found->second.lock() : nullptr;
    }

    /// An open share of a memory of a device that another process passes on.
    [[nodiscard]] std::shared_ptr<share_state> find_exported(wire::memory const& m) {
        std::vector<std::shared_ptr<share_state>> all;  // outlives the lock, as in collect_once
        std::lock_guard const lock{mutex_};
        for (auto const& [id, share] : shares_) {
            auto const& one = all.emplace_back(share.lock());
            if (one == nullptr || one->handles.empty() || one->is_passed_on || !one->is_open) continue;
            for (auto const& its : one->memories)
                if (is_same_allocation(its.description, m)) return one;
        }
        return nullptr;
    }

    /// Ends new attaches. What importers may still use of device memory is condemned: it lives until they are gone.
    /// False when its name stays.
    bool close(std::shared_ptr<share_state> const& s) noexcept {
        if (!s->process.is_here() || !s->is_open.exchange(false)) return true;
        bool const is_removed = s->where->memory.unlink(s->name);
        std::lock_guard const lock{mutex_};
        shares_.erase(s->id);
        // Of memory that is passed on, its exporter sees the importers in the same control page.
        bool const is_kept_here = !s->handles.empty() && !s->is_passed_on;
        if (!is_kept_here || !s->control().is_mapped(s->locks())) return is_removed;
        s->place_among_condemned.front() = s;
        condemned_.splice(condemned_.end(), s->place_among_condemned);
        return is_removed;
    }
    void close_all() noexcept {
        decltype(shares_) all;
        {
            std::lock_guard const lock{mutex_};
            if (process_.is_here()) all.swap(shares_);
        }
        for (auto const& [id, share] : all)
            if (auto const one = share.lock()) close(one);
    }
    /// Unmaps and frees what a closed share has left, without waiting.
    void drop_closed() noexcept {
        imports_.trim(true);
        collect_once();
    }
    std::size_t collect(std::chrono::nanoseconds limit) noexcept {
        drop_closed();
        sweep();
        auto const end = deadline(limit);
        for (;;) {
            std::size_t const left = collect_once();
            if (left == 0 || std::chrono::steady_clock::now() >= end) return left;
            std::this_thread::sleep_for(std::chrono::milliseconds{1});
        }
    }

    /// Keeps an allocation of shared_space.
    void keep(std::shared_ptr<region> const& r, std::string const& name) {
        regions_.add(r);
        r->name = name;
        r->made_by = process_mark::here();
        r->self = r;
    }
    void drop(void* data) noexcept {
        auto const found = regions_.find({static_cast<std::byte*>(data), 1, 0});
        if (found == nullptr || std::exchange(found->self, nullptr) == nullptr) return;
        if (!found->made_by.is_here()) return;  // the parent's name
        found->memory.unlink(found->name);
    }

    /// What data of the host is put into.
    [[nodiscard]] segment_kind segments() const noexcept { return segments_; }
    [[nodiscard]] region_map& regions() noexcept { return regions_; }
    [[nodiscard]] import_cache& imports() noexcept { return imports_; }
    [[nodiscard]] session_counts counts() const noexcept {
        auto const [mappings, unused] = imports_.counts();
        std::lock_guard const lock{mutex_};
        return {shares_.size(), mappings, unused, condemned_.size()};
    }

   private:
    /// Continues where the last one has stopped.
    std::size_t sweep() noexcept {
        std::lock_guard const lock{sweeping_};
        return detail::sweep(swept_to_);
    }
    std::size_t collect_once() noexcept {
        condemned_list freed;  // outlives the lock, because the destructors of owners may call this session
        std::lock_guard const lock{mutex_};
        if (!process_.is_here()) return 0;
        for (auto at = condemned_.begin(); at != condemned_.end();) {
            auto const one = at++;
            bool const is_mapped = (*one)->control().is_mapped((*one)->locks());
            if (!is_mapped) freed.splice(freed.end(), condemned_, one);
        }
        return condemned_.size();
    }

    using condemned_list = std::list<std::shared_ptr<share_state>>;

    segment_kind segments_;
    mutable std::mutex mutex_;
    wire::origin me_{};
    process_mark process_{};
    std::atomic<bool> is_swept_ = false;
    std::mutex sweeping_;  // held for longer than mutex_ may be
    long swept_to_ = 0;    // guarded by it
    std::map<std::uint64_t, std::weak_ptr<share_state>> shares_;
    condemned_list condemned_;  // keeps this session
    region_map regions_;
    import_cache imports_;  // last: its regions leave the map when they die
};

}  // namespace FERRY_NAMESPACE::ipc::detail
