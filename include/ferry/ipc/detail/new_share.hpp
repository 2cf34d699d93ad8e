// ferry: creates a share. Finds the memory of each range of bytes, exports it by a handle, or allocates memory for a
// copy.
#pragma once

#include <ferry/ipc/detail/session_state.hpp>
#include <ferry/ipc/session.hpp>
#include <ferry/wire/check.hpp>

#include <iterator>

namespace FERRY_NAMESPACE::ipc::detail {

/// Ends all writes to the memory of a share.
inline void freeze(share_state const& s, std::source_location where) {
    auto const& memory = s.where->memory;
    if (memory.is_frozen() || memory.size() == 0) return;
    if (memory.file() < 0)
        fail(errc::argument, share_api, where, "only anonymous segments can be frozen: set session_options::segments");
    // If `freeze` fails, it cannot restore the writable mapping of a sealed segment. It fails if a forked child has it.
    bool const can_try = s.where->shared_as == region::use::writable ||
                         (s.where->shared_as == region::use::sealed && s.where->forked_at == forks());
    if (can_try && memory.freeze()) return;
    int number = errno;
    if (can_try && number == EMFILE && s.session->make_room()) {
        if (memory.freeze()) return;
        number = errno;
    }
    if (can_try && number != EBUSY) fail_segment(number, "fcntl(F_SEAL_WRITE)", s.name, share_api, where);
    fail(errc::busy, share_api, where,
         "the memory is mapped with write access, or pinned: drop those tensors, unpin it, or share a copy");
}

/// Builds a share. Makes one share_state for each segment, and one for each device. The destructor closes them unless
/// `finish` was called.
class new_share {
   public:
    new_share(share_options const& how, bool is_read_only, handle_ref b, std::source_location where)
        : how_{how},
          is_copy_forbidden_{how.copy == copy_policy::never || never_copies(b)},
          is_read_only_{is_read_only},
          handles_{calls_of(b)},
          where_{where},
          session_{session_access::state(how.session)},
          me_{session_->me(where)},
          name_{.uid = ::geteuid(), .device = shared_memory_device(), .pid = me_.pid} {
        session_->sweep_once();
        session_->drop_closed();
    }
    new_share(new_share const&) = delete;
    new_share& operator=(new_share const&) = delete;
    ~new_share() {
        for (auto const& s : states_) {
            s->is_open = s->where != nullptr;
            session_->close(s);
        }
    }

    /// The copies that were made; set by the caller.
    share_copies copied{};

    /// Begins another tensor or column of the share. Writable ones must come first.
    void begin(bool is_read_only) noexcept { is_read_only_ = is_read_only; }
    /// Returns whether the memory that was found last is shared read-only.
    [[nodiscard]] bool is_read_only() const noexcept { return is_read_only_; }

    /// Finds the memory of a range, or exports it. If `bytes` is negative, the range ends with its allocation. `name()`
    /// returns the name of the range for messages. Returns false when the range must be copied.
    template <class Name>
    [[nodiscard]] bool locate(std::byte const* begin, std::int64_t bytes, ferry::device place, Name const& name,
                              wire::slice& out) {
        char const* refusal = nullptr;
        known_memory const* known = nullptr;
        byte_range const range{begin, bytes < 0 ? 1 : static_cast<std::size_t>(bytes), 0};
        auto const after = known_.upper_bound(begin);
        bool const is_on_host = is_host_accessible(place);
        if (!is_on_host && (handles_ == nullptr || !handles_->exports(place))) fail_no_handles(place, name());
        if (how_.copy == copy_policy::always) return false;
        if (after != known_.begin() && take(std::prev(after)->second, begin, bytes, place, out)) {
            is_read_only_ |= std::prev(after)->second.is_read_only;
            return true;
        }
        if (place.type == device_type::cpu) {
            known = find(range, refusal);
        } else if (is_on_host) {
            refusal = "memory of its device has no handle for other processes";
        } else {
            known = find_opened(range, place, refusal);
            if (known == nullptr && refusal == nullptr) known = try_export(range, place, refusal);
        }
        if (refusal != nullptr && is_copy_forbidden_)
            fail(is_on_host ? errc::copy_needed : errc::not_exportable, share_api,
                 name() << ": " << refusal << ", and a copy of memory of " << ferry::name(place.type)
                        << " is forbidden: "
                        << (is_on_host ? "allocate it from ferry::ipc::shared_space of the session"
                                       : "allow a copy, or share memory that has a handle"),
                 where_);
        if (refusal != nullptr && copied.reason == nullptr) copied.reason = refusal;
        if (refusal != nullptr) return false;
        if (!take(*known, begin, bytes, place, out))
            fail(errc::out_of_range, share_api,
                 name() << ": it exceeds its allocation: correct the shape, strides or length in the producer", where_);
        return true;
    }
    /// Allocates memory for a copy, which `write(to)` makes and completes. `place` is the host, or a device that
    /// `locate` accepts. Returns the number of the memory, and the range of the copy in it.
    template <class Write>
    [[nodiscard]] wire::slice add_copy(std::size_t bytes, ferry::device place, stream_token on, Write write) {
        if (is_copy_forbidden_ && bytes != 0)
            fail(errc::copy_needed, share_api, where_,
                 "the elements must be copied, which copy_policy::never or share_only forbids: allow a copy");
        ++copies_;
        if (place.type == device_type::cpu) {
            auto& s = add_segment(0, bytes);
            auto const& made = add_data(s);
            write(made.begin);
            static_cast<void>(session_->regions().prepare(*s.where, is_read_only_, how_.freeze));
            return {made.number, 0, bytes};
        }
        auto memory = handles_->allocate_exportable(place, bytes, on);
        auto* const to = static_cast<std::byte*>(memory.data());
        write(to);
        auto const& made = export_range({to, bytes, 0}, place, std::make_shared<decltype(memory)>(std::move(memory)));
        return {made.number, static_cast<std::uint64_t>(to - made.begin), bytes};
    }
    /// Adds a control page without data, for an empty tensor.
    wire::slice add_none(ferry::device place) {
        auto& s = add_segment(0, 0);
        return {add(s, {.type = place.type, .id = s.id}, nullptr, place).number, 0, 0};
    }
    [[nodiscard]] bool is_empty() const noexcept { return states_.empty(); }
    /// Restricts the exported range to a slice of the only memory.
    void narrow(wire::slice const& to) noexcept {
        auto& only = states_[0]->memories[0];
        only.begin += to.offset;
        only.description.offset += to.offset;
        only.description.length = to.length;
    }

    /// Completes the share and permits attaches. `owner` owns the memory that is shared in place.
    [[nodiscard]] std::shared_ptr<share_state> finish(decltype(wire::descriptor::root) root,
                                                      std::shared_ptr<void const> const& owner) {
        auto& all = states_[0]->description;
        all.from = me_;
        all.root = std::move(root);
        all.memories.resize(known_.size());
        bool const is_all_copied = copied && copies_ == known_.size();
        for (auto const& s : states_) {
            for (auto const& m : s->memories) all.memories[m.number] = m.description;
            if (!is_all_copied) s->owner = owner;
        }
        if (!std::holds_alternative<wire::tensor>(all.root)) wire::check(all, where_);  // names may not be UTF-8
        for (auto const& s : states_) {
            session_->add(s);
            if (s->is_frozen) freeze(*s, where_);
            s->is_open = true;
        }
        auto first = states_[0];
        first->bytes[0] = static_cast<std::int64_t>(first->memories[0].description.length);
        first->copied = std::move(copied);
        first->others.assign(states_.begin() + 1, states_.end());
        states_.clear();
        return first;
    }

   private:
    /// A memory that is part of the share. These memories are in a map, because the kernel maps each segment below the
    /// last one, so that a sorted vector would insert each at the front.
    struct known_memory {
        std::byte* begin;
        std::byte* end;
        std::uint32_t number;
        ferry::device place;
        bool is_read_only;
    };

    [[noreturn]] FERRY_COLD void fail_no_handles(ferry::device place, message text) const {
        text << ": the passed back end makes no handles for memory of " << ferry::name(place.type)
             << (uses_cuda_streams(place.type) ? ": include <ferry/cuda/ipc.hpp> and pass ferry::cuda::shareable"
                                               : ": pass one that does, or share a copy on the host");
        fail(errc::no_backend, share_api, text, where_);
    }
    [[nodiscard]] static bool take(known_memory const& known, std::byte const* begin, std::int64_t bytes,
                                   ferry::device place, wire::slice& out) {
        // A range of unknown size that begins at the end of this allocation is in the next one.
        bool const is_after = std::less<>{}(known.end, begin) || (begin == known.end && bytes < 0);
        if (!is_same_device(known.place, place) || is_after) return false;
        auto const room = static_cast<std::uint64_t>(known.end - begin);
        auto const length = bytes < 0 ? room : static_cast<std::uint64_t>(bytes);
        if (length > room) return false;
        out = {known.number, static_cast<std::uint64_t>(begin - known.begin), length};
        return true;
    }
    /// Finds host memory. Returns null, with the reason, unless the memory lies in a segment that can get another name
    /// or that has a file descriptor.
    [[nodiscard]] known_memory const* find(byte_range const& range, char const*& refusal) {
        auto found = session_->regions().find(range);
        refusal = "it is not in shared memory";
        if (found == nullptr) return nullptr;
        bool const is_read_only = is_read_only_ || found->mode == access_mode::read_only || found->memory.is_frozen();
        refusal = "it is sealed by a read-only share";
        if (!session_->regions().prepare(*found, is_read_only, how_.freeze)) return nullptr;
        auto* const s = add_link(std::move(found), refusal);
        if (s == nullptr) return nullptr;
        s->is_read_only = is_read_only_ = is_read_only;
        return &add_data(*s);
    }
    /// Finds device memory that another process exports, and passes on its handle. Importers use the control page of
    /// that exporter, which thus keeps the memory for them when this share and this process have ended. Returns null
    /// with the reason or, when this session has not attached the memory, without one.
    [[nodiscard]] known_memory const* find_opened(byte_range const& range, ferry::device place, char const*& refusal) {
        auto found = session_->imports().find(range, place);
        if (!found) return nullptr;
        if (!found->is_open) {
            refusal = "another process exports it, and has closed its share or has ended";
            return nullptr;
        }
        auto& m = found->description;
        if (!handles_->passes_on(m)) {
            refusal = "another process exports it, and the passed back end does not pass on its handle";
            return nullptr;
        }
        fail_if_frozen(place);
        auto const at = std::find_if(states_.begin(), states_.end(), [&](auto& s) { return s->where == found->where; });
        bool const is_first = at == states_.end();
        auto const ready_on = is_first ? how_.ready_on.on_device(place) : stream_token{};
        auto handle = handles_->pass_on(m, ready_on);
        m = handle->description();
        auto* const s = is_first ? add_link(std::move(found->where), refusal) : at->get();
        if (s == nullptr) return nullptr;
        s->is_passed_on = true;
        s->handles.push_back(std::move(handle));
        return &add(*s, std::move(m), found->begin, place);
    }
    /// Exports device memory. Returns null, with the reason, when the memory has no handle. Requests the reason only in
    /// this case, because the back end examines the allocation to find it.
    [[nodiscard]] known_memory const* try_export(byte_range const& range, ferry::device place, char const*& refusal) {
        try {
            return &export_range(range, place, nullptr);
        } catch (error const& e) {
            if (e.code() != errc::not_exportable || (refusal = handles_->refusal(range, place)) == nullptr) throw;
            return nullptr;
        }
    }
    /// Exports device memory by a handle for its whole allocation. All memories of a device share one control page and
    /// one event, which the first of them exports. `copy`, if any, owns the memory and outlives the handle.
    known_memory const& export_range(byte_range const& range, ferry::device place, std::shared_ptr<void const> copy) {
        fail_if_frozen(place);
        auto const found = std::find_if(states_.begin(), states_.end(), [&](auto const& s) {
            return !s->handles.empty() && !s->is_passed_on && is_same_device(s->device, place);
        });
        bool const is_first = found == states_.end();
        auto const ready_on = is_first ? how_.ready_on.on_device(place) : stream_token{};
        auto handle = handles_->export_memory(range, place, ready_on);
        wire::memory m = handle->description();
        auto& s = is_first ? add_segment(m.id, 0) : **found;
        if (copy != nullptr) s.copy = std::move(copy);
        s.handles.push_back(std::move(handle));
        auto* const begin = const_cast<std::byte*>(range.begin) - std::exchange(m.offset, 0);
        m.length = m.allocation;
        return add(s, std::move(m), begin, place);
    }

    /// Fails if the share is to be frozen. Called before other memory of the column is frozen, which cannot be undone.
    void fail_if_frozen(ferry::device place) const {
        if (how_.freeze)
            fail(errc::argument, share_api, where_, "memory of ", ferry::name(place.type),
                 " cannot be frozen: share a copy on the host");
    }
    /// Adds a state that gives a segment another name. Returns null, with the reason, when it cannot have one.
    [[nodiscard]] share_state* add_link(std::shared_ptr<region> where, char const*& refusal) {
        auto& s = add_state(where->memory.file() >= 0 ? segment_kind::anonymous : segment_kind::named);
        auto const link = [&] { return session_->regions().link(*where, s.name) ? 0 : errno; };
        int number = link();
        if (number != 0 && number != ENOENT && session_->make_room()) number = link();
        if (number != 0) {
            refusal =
                number == ENOENT
                    ? "its share is closed, which has removed the last name of its segment (share it again before, or "
                      "use anonymous segments)"
                    : "its segment cannot have another name in /dev/shm";
            states_.pop_back();
            return nullptr;
        }
        s.where = std::move(where);
        refusal = nullptr;
        return &s;
    }
    /// Adds a state with a new name.
    share_state& add_state(segment_kind kind) {
        auto& s = *states_.emplace_back(std::make_shared<share_state>());
        name_.id = fresh_id(share_api, where_);
        name_.kind = kind;
        s.session = session_;
        s.name = to_string(name_);
        s.id = name_.id;
        s.process = process_mark::here();
        s.is_read_only = is_read_only_;
        s.is_frozen = how_.freeze;
        return s;
    }
    /// Adds a state with a new segment of `bytes` bytes after the control page. `allocation` is the ID of the memory; 0
    /// selects the ID of the state.
    share_state& add_segment(std::uint64_t allocation, std::size_t bytes) {
        auto& s = add_state(session_->segments());
        auto const id = allocation != 0 ? allocation : s.id;
        s.where = session_->with_room([&] { return std::make_shared<region>(s.name, bytes, id, where_); });
        session_->regions().add(s.where);
        return s;
    }
    /// Adds a memory with all data of the segment of a state.
    known_memory const& add_data(share_state& s) {
        auto const& r = *s.where;
        auto const bytes = r.memory.size();
        return add(s, {.kind = wire::memory_kind::host_shared, .id = r.id, .allocation = bytes, .length = bytes},
                   bytes == 0 ? nullptr : r.memory.data(), cpu);
    }
    known_memory const& add(share_state& s, wire::memory m, std::byte* begin, ferry::device place) {
        known_memory const known{begin, begin + m.length, static_cast<std::uint32_t>(known_.size()), place,
                                 is_read_only_};
        s.device = place;
        s.is_read_only &= is_read_only_;
        m.name = s.name;
        s.memories.push_back({std::move(m), begin, known.number});
        return known_.emplace(begin, known)->second;
    }

    share_options const& how_;
    bool is_copy_forbidden_;
    bool is_read_only_;
    std::unique_ptr<handle_calls> handles_;  // null if the back end has none
    std::source_location where_;
    std::shared_ptr<session_state> session_;
    wire::origin me_;
    segment_name name_;
    std::vector<std::shared_ptr<share_state>> states_{};
    std::multimap<std::byte const*, known_memory, std::less<>> known_{};  // by address
    std::size_t copies_ = 0;                                              // number of memories that contain copies
};

}  // namespace FERRY_NAMESPACE::ipc::detail
