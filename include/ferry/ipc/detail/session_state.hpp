// ferry: the state of a session, and the state of a share in its exporter.
#pragma once

#include <ferry/ipc/detail/import.hpp>

#include <list>
#include <thread>  // waits are polled

namespace FERRY_NAMESPACE::ipc::detail {

/// Returns the view of a tensor of a descriptor, in a memory that begins at `begin`, which is null for an empty tensor.
[[nodiscard]] inline tensor_view view_of(wire::tensor const& t, std::byte* begin, ferry::device where) noexcept {
    auto const strides = t.strides.empty() ? strides_view{} : strides_view{t.strides};
    void* const data = begin == nullptr ? nullptr : begin + t.byte_offset;
    return {data, t.dtype, t.shape, strides, where, known(t.flags) & ~flags::is_copied};
}

class session_state;

/// Returns whether two descriptions refer to the same device allocation, by the handle of its exporter.
[[nodiscard]] inline bool is_same_allocation(wire::memory const& a, wire::memory const& b) noexcept {
    return a.kind == b.kind && a.id == b.id && a.allocation == b.allocation && a.device == b.device &&
           a.handle == b.handle;
}

/// A control page, and the memories whose descriptions name it. Owned by `shared`, by the exporter's own tensors, and
/// by the session while importers have device memory mapped.
struct share_state {
    struct memory {
        wire::memory description;
        std::byte* begin;      // first byte of the exported range
        std::uint32_t number;  // index in the descriptor of the whole share
    };

    std::shared_ptr<session_state> session{};          // first, because the destructors of the others need it
    std::shared_ptr<void const> copy{};                // device memory of copies
    std::shared_ptr<void const> owner{};               // owner of memory that is shared in place
    std::shared_ptr<region> where{};                   // the control page, and the data in host memory
    std::vector<std::unique_ptr<exported>> handles{};  // of device memory; destroyed before the memory
    std::string name{};
    std::vector<memory> memories{};
    ferry::device device{};
    std::uint64_t id = 0;    // as in the name
    process_mark process{};  // the process that may close it; not a forked child
    bool is_read_only = false;
    bool is_frozen = false;     // also before it is frozen
    bool is_passed_on = false;  // device memory that another process exports
    std::atomic<bool> is_open = false;

    // The members below describe the whole share, in the first of its states.
    wire::descriptor description{};
    std::array<std::int64_t, 1> bytes{};  // size of the first memory
    share_copies copied{};
    std::vector<std::shared_ptr<share_state>> others{};

    /// A list element for `condemned_`, allocated in advance, because `close` must not fail.
    std::list<std::shared_ptr<share_state>> place_among_condemned{nullptr};

    [[nodiscard]] control_page& control() const noexcept { return where->memory.control(); }
    [[nodiscard]] int locks() const noexcept { return where->memory.locks(); }
    /// Returns a view of the tensor; for a column or a list, of the bytes of the first memory.
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

    /// Returns the identity of this process. In a forked child, first removes the shares and mappings of the parent.
    [[nodiscard]] wire::origin me(std::source_location where) {
        std::unique_lock lock{mutex_};
        if (process_.is_here()) return me_;
        bool const is_child{process_};
        me_ = this_process(where);
        if (is_child) static_cast<void>(new condemned_list{std::move(condemned_)});  // of the parent: leaked here
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

    /// Removes names that ended exporters have left, once in every process, before its first segment.
    void sweep_once() noexcept {
        if (!is_swept_.exchange(true)) static_cast<void>(sweep());
    }
    /// Calls `f`. If it fails because memory or file descriptors are short, or the memory is already mapped, calls it
    /// again after `make_room`.
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
    /// Removes unused mappings, and names that ended exporters have left. Returns false when there were none.
    bool make_room() noexcept {
        bool is_any = imports_.trim();
        std::lock_guard const lock{sweeping_};
        int left = 16;  // bounded, whatever the folder contains
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

    /// Finds the open share by which this process exports device memory that another process passes on.
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

    /// Closes a share, so that it cannot be attached any more. Puts a share of device memory that importers still map
    /// into `condemned_`, which keeps the memory until they have unmapped it. Returns false when the name stays.
    bool close(std::shared_ptr<share_state> const& s) noexcept {
        if (!s->process.is_here() || !s->is_open.exchange(false)) return true;
        bool const is_removed = s->where->memory.unlink(s->name);
        std::lock_guard const lock{mutex_};
        shares_.erase(s->id);
        // The exporter of memory that is passed on sees the importers in the same control page.
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
    /// Unmaps and frees the unused memory of closed shares, without waiting.
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
        if (!found->made_by.is_here()) return;  // the name belongs to the parent
        found->memory.unlink(found->name);
    }

    /// Returns the kind of segment for host data.
    [[nodiscard]] segment_kind segments() const noexcept { return segments_; }
    [[nodiscard]] region_map& regions() noexcept { return regions_; }
    [[nodiscard]] import_cache& imports() noexcept { return imports_; }
    [[nodiscard]] session_counts counts() const noexcept {
        auto const [mappings, unused] = imports_.counts();
        std::lock_guard const lock{mutex_};
        return {shares_.size(), mappings, unused, condemned_.size()};
    }

   private:
    /// Removes names that ended exporters have left, from the position at which the last call stopped.
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
    std::mutex sweeping_;  // a separate mutex, because a sweep takes up to 10 ms
    long swept_to_ = 0;    // guarded by sweeping_
    std::map<std::uint64_t, std::weak_ptr<share_state>> shares_;
    condemned_list condemned_;  // its elements own this session
    region_map regions_;
    import_cache imports_;  // last, because its regions remove themselves from the map
};

}  // namespace FERRY_NAMESPACE::ipc::detail
