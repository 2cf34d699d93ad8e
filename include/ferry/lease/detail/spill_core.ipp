// ferry: the engine of spill_core.
#pragma once

#include <ferry/lease/detail/spill_core.hpp>

#include <ferry/base/detail/check_stream.hpp>
#include <ferry/base/detail/reporter.hpp>
#include <ferry/column/detail/staged_bytes.hpp>
#include <ferry/space/detail/operations.hpp>
#include <ferry/tensor/make_managed.hpp>
#include <ferry/tensor/validate.hpp>

#include <functional>  // std::less, which orders pointers into different objects

namespace FERRY_NAMESPACE::detail {

[[nodiscard]] inline error spill_error(errc code, message const& text,
                                       record const& of = {"ferry::spill_manager", {}}) noexcept {
    return {code, of.api, text, of.where};
}
/// Calls `f`, and returns its result or the error that it throws.
template <class F>
[[nodiscard]] auto guarded(F f) noexcept -> decltype(f()) {
    try {
        return f();
    } catch (error const& e) {
        return e;
    } catch (std::bad_alloc const&) {
        return spill_error(errc::out_of_memory, "an allocation failed: free memory");
    } catch (...) {
        return spill_error(errc::driver, "the back end threw an exception that is no ferry::error: correct it");
    }
}

FERRY_INLINE spill_core::~spill_core() {
    for (auto* list : {&dropped_, &quarantined_})  // the last allocations: no handle and no lease exists
        while (list->next != list) {
            auto* const a = static_cast<allocation*>(list->next);
            a->unlink();
            delete a;
        }
}

FERRY_INLINE void spill_core::close() noexcept {
    lock held{mutex_};
    is_closed_ = true;
    result<> ignored;
    while (free_one(held, ignored) != 0) {
    }
    changed_.wait(held, [&] { return calls_ == 0 && moving_ == 0; });
}

FERRY_INLINE void spill_core::settle(allocation& a) noexcept {
    if (a.state.is_quarantined) quarantined_.append(a);
    else if (a.state.at == lease_state::place::resident && a.bytes != 0)
        (a.state.is_used() ? leased_ : idle_).append(a);
    else a.unlink();
}

FERRY_INLINE void spill_core::release_if_dropped(allocation& a, lock& held) noexcept {
    if (!a.state.is_dropped() || a.state.is_quarantined) return;
    dropped_.append(a);
    collect(held);
}

FERRY_INLINE bool spill_core::free_dropped(lock& held, bool waits, std::size_t& freed) noexcept {
    auto& a = *static_cast<allocation*>(dropped_.next);
    a.unlink();
    bool const is_resident = a.state.at == lease_state::place::resident, is_closed = is_closed_;
    auto const bytes = a.bytes, pinned = a.host_device.type != device_type::cpu ? a.bytes : 0;
    auto const source = a.source;
    ++moving_;
    held.unlock();
    bool const is_done = waits || is_closed || a.marks.are_done(*marks_);
    if (is_done) delete &a;  // waits for its marks, then frees its memory
    held.lock();
    --moving_;
    changed_.notify_all();
    if (!is_done) return dropped_.next->append(a), false;
    if (is_resident) freed += leave(source, &a, bytes);
    pinned_ -= pinned;
    return true;
}

FERRY_INLINE std::size_t spill_core::leave(std::shared_ptr<lease_source> const& source, allocation const* a,
                                           std::size_t bytes) noexcept {
    if (source != nullptr) {
        std::erase(source->parts, a);
        source->gone += bytes;
        if (--source->users != 0) return 0;
        bytes = source->gone;
        sources_.erase(source->owner);
    }
    resident_ -= bytes;
    totals_.freed_bytes += bytes;
    return bytes;
}

FERRY_INLINE result<any_owner> spill_core::mark(stream_token on) noexcept {
    return guarded([&] { return marks_->record(back_end_object_, on); });
}

FERRY_INLINE result<> spill_core::copy(void* dst, ferry::device to, void const* src, ferry::device from,
                                       std::size_t bytes, stream_token on, bool waits) {
    auto const plan = plan_bytes(static_cast<std::int64_t>(bytes));
    record outcome{"ferry::spill_manager", {}};
    bool is_complete = false;
    static_cast<void>(waits ? copy_and_wait(back_end_, plan, dst, to, src, from, on, outcome)
                            : queue_copy(back_end_, plan, dst, to, src, from, on, is_complete, outcome));
    return outcome.outcome;
}

FERRY_INLINE result<any_owner> spill_core::allocate(std::size_t bytes, stream_token on) noexcept {
    for (;;) {
        auto const seen = freed();
        auto got = guarded([&] { return on_device_.allocate(device_, bytes, on); });
        if (got || got.error().code() != errc::out_of_memory || !make_room(bytes, seen)) return got;
    }
}

FERRY_INLINE result<std::unique_ptr<allocation>> spill_core::describe(managed_tensor& tensor, stream_token on,
                                                                      record to) {
    auto const view = tensor.try_view();
    if (!view) return view.error();
    auto const& v = *view;
    if (!is_same_device(v.device(), device_))
        return spill_error(errc::device,
                           message{"the tensor is on "}
                               << name(v.device().type) << ":" << v.device().id << ", expected " << name(device_.type)
                               << ":" << device_.id << ", the device of the memory space: pass a tensor of that device",
                           to);
    byte_reach reach;
    if (!check_stream(on, device_, to)) return to.outcome.error();
    if (v.is_contiguous()) reach.above = static_cast<std::uint64_t>(v.nbytes());  // faster than check_reach
    else if (!check_reach(v, reach, to)) return to.outcome.error();
    std::unique_ptr<allocation> made{new allocation};  // not zeroed
    auto& a = *made;
    if (!v.is_empty()) {
        a.below = reach.below;
        a.bytes = static_cast<std::size_t>(reach.below + reach.above);
        a.base = static_cast<std::byte*>(const_cast<void*>(v.data())) - a.below;
    }
    auto const bits = v.flags() & (flags::subbyte_padded | flags::read_only);
    a.layout = tensor_view{static_cast<void*>(nullptr), v.dtype(), v.shape(), v.strides(), device_, bits};
    if (on.names_stream()) {
        auto marked = mark(on);
        if (!marked) return marked.error();
        a.marks.add(on, true, *marked);
    }
    a.original = std::move(tensor);
    return made;
}

FERRY_INLINE result<allocation*> spill_core::adopt(managed_tensor& tensor, stream_token on, std::size_t reserved,
                                                   record to) {
    auto made = describe(tensor, on, to);
    if (!made) return made.error();
    auto* const a = made->get();
    admit({&*made, 1}, reserved);
    return a;
}

FERRY_INLINE void spill_core::admit(std::span<std::unique_ptr<allocation>> made, std::size_t reserved,
                                    std::shared_ptr<void const> const& owner) {
    lock held{mutex_};
    if (owner != nullptr && !made.empty()) {
        auto const fresh = std::make_shared<lease_source>(lease_source{owner});
        fresh->parts.reserve(made.size());
        auto const& source = sources_.try_emplace(owner, fresh).first->second;
        source->parts.reserve(source->parts.size() + made.size());
        for (auto const& a : made) {
            a->source = source;
            source->parts.push_back(a.get());
            ++source->users;
        }
    }
    for (auto& each : made) {
        auto& a = *each.release();
        resident_ += a.bytes;
        settle(a);
    }
    reserved_ -= reserved;
    collect(held);
    static_cast<void>(free_up(0, held));
}

FERRY_INLINE allocation* spill_core::find(std::shared_ptr<void const> const& owner, std::byte const* begin,
                                          std::size_t bytes) noexcept {
    lock const held{mutex_};
    auto const found = sources_.find(owner);
    if (found == sources_.end()) return nullptr;
    for (auto* const a : found->second->parts)
        if (!std::less<>{}(begin, a->base) && !std::less<>{}(a->base + a->bytes, begin + bytes)) {
            ++a->state.handles;
            return a;
        }
    return nullptr;
}

FERRY_INLINE result<allocation*> spill_core::duplicate(allocation const& a, stream_token on) {
    if (auto reserved = reserve(a.bytes); !reserved) return reserved.error();
    auto memory = allocate(a.bytes, on);
    auto made = guarded([&]() -> result<allocation*> {
        if (!memory) return memory.error();
        auto* const base = static_cast<std::byte*>(memory->data());
        if (a.bytes != 0)
            if (auto copied = copy(base, device_, a.base, device_, a.bytes, on, !on.names_stream()); !copied)
                return copied.error();
        auto const view = a.view(base, device_, a.layout.flags() & flags::subbyte_padded);
        auto tensor = own(std::move(*memory), view, flags::none, version::current, {"ferry::shared_tensor", {}});
        auto adopted = guarded([&] { return adopt(tensor, on, a.bytes, {"ferry::shared_tensor", {}}); });
        if (!adopted) wait_after_error(back_end_, on);
        return adopted;
    });
    if (made) return made;
    if (memory) wait_after_error(back_end_, on);  // before the memory is freed
    unreserve(a.bytes);
    return made;
}

FERRY_INLINE result<> spill_core::begin(allocation& a, stream_token on, bool writes, record to) {
    if (!check_stream(on, device_, to)) return to.outcome;
    if (writes && a.is_read_only())
        return spill_error(errc::read_only, "the tensor is read-only: read it, or copy it", to);
    any_owner unused;  // destroyed without the lock
    lock held{mutex_};
    lease_state::place place{};
    begun answer{};
    stream_token behind;  // stream of a live lease that writes; its work has no mark yet
    do {
        if (is_closed_)
            return spill_error(errc::consumed,
                               "the spill_manager of this tensor was destroyed: release its tensors before the manager",
                               to);
        place = a.state.at;
        bool const moves = place == lease_state::place::moving;  // another thread owns the marks
        bool const is_same = a.writer == on && on.which() != stream_token::kind::per_thread_default;
        behind = a.state.writers == 0 || is_same || on.is_no_sync() ? stream_token{} : a.writer;
        answer = a.state.begin(writes, !moves && (behind.names_stream() || a.marks.needs_order(on, writes)));
        if (answer == begun::wait) changed_.wait(held);
    } while (answer == begun::wait);
    if (answer == begun::prepare) {
        bool const is_away = place == lease_state::place::away;
        ++calls_;
        a.unlink();
        held.unlock();
        auto memory = guarded([&]() -> result<any_owner> {
            if (is_away) return bring_back(a);
            if (behind.names_stream()) {
                if (behind.which() == stream_token::kind::per_thread_default)  // may belong to another thread
                    behind = stream_token::cuda_legacy_default(device_.id);
                auto marked = mark(behind);
                if (!marked) return marked;
                a.marks.add(behind, true, *marked);
                if (marks_->discard != nullptr && marked->data() != nullptr) marks_->discard(marked->data());
            }
            if (auto ordered = a.marks.prepare(on, writes, *marks_); !ordered) return ordered.error();
            return any_owner{};
        });
        held.lock();
        --calls_;
        changed_.notify_all();
        a.state.prepared(writes, memory.has_value(), place);
        settle(a);
        if (!memory) return release_if_dropped(a, held), memory.error();
        if (is_away) {
            a.memory = *std::move(memory);
            a.base = static_cast<std::byte*>(a.memory.data());
            unused = std::move(a.host);
            if (std::exchange(a.host_device, cpu).type != device_type::cpu) pinned_ -= a.bytes;
            reserved_ -= a.bytes;
            resident_ += a.bytes;
            ++totals_.returns;
            totals_.returned_bytes += a.bytes;
        }
    }
    if (writes) a.writer = on;
    if (a.state.readers + a.state.writers == 1) {
        settle(a);
        totals_.leased_bytes += a.bytes;
        a.where = to.where;
    }
    return {};
}

FERRY_INLINE result<any_owner> spill_core::bring_back(allocation& a) noexcept {
    if (auto reserved = reserve(a.bytes); !reserved) return reserved.error();
    auto memory = guarded([&]() -> result<any_owner> {
        auto got = allocate(a.bytes, options_.stream);
        if (!got) return got;
        auto copied = copy(got->data(), device_, a.host.data(), a.host_device, a.bytes, options_.stream, true);
        if (!copied) return copied.error();
        return got;
    });
    if (!memory) unreserve(a.bytes);
    return memory;
}

FERRY_INLINE void spill_core::end(allocation& a, lease_use const& use) noexcept {
    lock held{mutex_};
    auto const add = [&](stream_token on) {
        if (!on.names_stream() || is_closed_) return;
        if (on.which() == stream_token::kind::per_thread_default && use.thread != this_thread())
            on = stream_token::cuda_legacy_default(device_.id);  // runs after the per-thread default streams
        ++calls_;
        held.unlock();
        auto marked = mark(on);
        held.lock();
        changed_.wait(held, [&] { return a.state.at != lease_state::place::moving; });
        if (!marked && !std::exchange(a.state.is_quarantined, true)) ++totals_.quarantined;
        bool const is_added =
            marked && guarded([&]() -> result<> { return a.marks.add(on, use.writes, *marked), result<>{}; });
        held.unlock();
        if (is_added && marks_->discard != nullptr && marked->data() != nullptr) marks_->discard(marked->data());
        if (marked) *marked = {};  // waits for the marked work unless the mark was added or discarded
        held.lock();
        --calls_;
    };
    add(use.on);
    for (auto const on : use.others) add(on);
    a.state.end(use.writes);
    if (!a.state.is_used()) totals_.leased_bytes -= a.bytes, settle(a);
    changed_.notify_all();
    release_if_dropped(a, held);
}

FERRY_INLINE void spill_core::drop(allocation& a) noexcept {
    lock held{mutex_};
    if (--a.state.handles == 0 && a.source != nullptr) std::erase(a.source->parts, &a);
    release_if_dropped(a, held);
}

FERRY_INLINE result<any_owner> spill_core::spill(allocation& a) noexcept {
    a.marks.uses.clear();  // waits, then copies
    a.host_device = device_type::cuda_host;
    bool is_pinned = options_.most_pinned != 0 && back_end_.reaches(a.host_device);
    lock held{mutex_};
    is_pinned = is_pinned && a.bytes + pinned_ <= options_.most_pinned;
    if (is_pinned) pinned_ += a.bytes;
    held.unlock();
    auto const copy_to = [&](ferry::device d) {
        a.host_device = d;
        return guarded([&]() -> result<any_owner> {
            if (a.original) a.keep_layout();
            auto got = back_end_.allocate(d, a.bytes, {});
            if (!got) return got;
            auto copied = copy(got->data(), d, a.base, device_, a.bytes, options_.stream, true);
            if (!copied) return copied.error();
            return got;
        });
    };
    if (is_pinned) {
        auto host = copy_to(a.host_device);
        if (host) return host;
        held.lock();
        pinned_ -= a.bytes;
        held.unlock();
    }
    return copy_to(cpu);
}

FERRY_INLINE std::size_t spill_core::free_one(lock& held, result<>& failure) noexcept {
    std::size_t freed = 0;
    while (freed == 0 && dropped_.next != &dropped_) static_cast<void>(free_dropped(held, true, freed));
    while (freed == 0 && failure && !is_closed_) {  // only the last allocation of a column frees its memory
        auto* node = idle_.next;
        auto const is_kept = [](allocation const& a) { return a.source != nullptr && a.source->is_kept(); };
        while (node != &idle_ && is_kept(*static_cast<allocation*>(node))) node = node->next;
        if (node == &idle_) break;
        auto& a = *static_cast<allocation*>(node);
        a.unlink();
        static_cast<void>(a.state.leave());  // true: the list contains only such allocations
        ++moving_;
        held.unlock();
        auto host = spill(a);
        if (host) {  // frees the device memory
            a.base = nullptr;
            a.original = {};
            a.memory = {};
            a.host = *std::move(host);
        }
        held.lock();
        --moving_;
        a.state.left(host.has_value());
        if (host) {
            freed = leave(std::exchange(a.source, nullptr), &a, a.bytes);
            totals_.spilled_bytes += a.bytes;
            ++totals_.spills;
        } else {
            ++totals_.failed_spills;
            failure = host.error();
        }
        settle(a);
        changed_.notify_all();
        release_if_dropped(a, held);
    }
    return freed;
}

FERRY_INLINE result<> spill_core::reserve(std::size_t bytes) noexcept {
    lock held{mutex_};
    if (bytes > options_.limit)
        return spill_error(errc::out_of_memory, message{"an allocation of "}
                                                    << std::uint64_t{bytes} << " bytes exceeds the limit of "
                                                    << std::uint64_t{options_.limit} << " bytes: raise the limit");
    while (resident_ + reserved_ > options_.limit - bytes) {
        result<> failure;
        if (free_one(held, failure) != 0) continue;
        if (resident_ + reserved_ <= options_.limit - bytes) break;
        if (!failure) return failure;
        if (moving_ == 0)
            return spill_error(errc::busy, message{"live leases and reservations occupy the limit of "}
                                               << std::uint64_t{options_.limit}
                                               << " bytes: end leases, or raise the limit");
        changed_.wait(held);
    }
    reserved_ += bytes;
    return {};
}

FERRY_INLINE std::size_t spill_core::free_up(std::size_t bytes, lock& held) noexcept {
    result<> ignored;
    std::size_t freed = 0, more = 1;
    while ((freed < bytes || resident_ + reserved_ > options_.limit) && more != 0)
        freed += more = free_one(held, ignored);
    return freed;
}

FERRY_INLINE bool spill_core::make_room(std::size_t bytes, std::uint64_t seen) noexcept {
    std::size_t freed = 0;
    lock held{mutex_};
    while (totals_.freed_bytes == seen || freed < bytes) {
        result<> failure;
        auto const more = free_one(held, failure);
        freed += more;
        if (more != 0) continue;
        if (totals_.freed_bytes != seen) return true;
        if (!failure || moving_ == 0) return false;
        changed_.wait(held);
    }
    return true;
}

FERRY_INLINE std::string spill_core::live_leases() const {
    std::string table;
    lock const held{mutex_};
    for (auto* node = leased_.next; node != &leased_; node = node->next) {
        auto const& a = *static_cast<allocation const*>(node);
        table += std::to_string(a.bytes) + " bytes  " + a.where.file_name() + ":" + std::to_string(a.where.line()) +
                 "  " + std::to_string(a.state.readers) + " reading, " + std::to_string(a.state.writers) + " writing\n";
    }
    return table;
}

}  // namespace FERRY_NAMESPACE::detail
