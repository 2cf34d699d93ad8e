// ferry: the publications of an exporter by name: bounded, with a time to live; the least recently used is evicted
// first.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/ipc/message.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>  // std::less<>: look-ups by string_view allocate nothing
#include <map>
#include <string>  // names are owned
#include <string_view>
#include <utility>
#include <vector>  // descriptors are owned

namespace ferry::inline FERRY_ABI_NAMESPACE::ipc {

/// A publication. The descriptor is opaque to the registry: bytes of ferry::wire, or any others.
struct publication {
    std::string name;
    std::uint64_t buffer = 0;
    std::uint64_t generation = 0;  ///< increases with every publication of a registry
    std::vector<std::byte> descriptor;
    std::uint8_t fds = 0;      ///< number of its file descriptors
    instant since = 0;         ///< time of publication
    std::uint64_t grants = 0;  ///< number of grants
    std::uint64_t used = 0;    ///< its position in the order of use
    bool operator==(publication const&) const = default;
};

/// Publications by name: a value without a clock, a lock or I/O. Functions that remove publications return them,
/// because the caller has to decide about their buffers.
class registry {
   public:
    /// \param bound         maximum number of publications, at least 1; one more evicts the least recently used
    /// \param time_to_live  milliseconds after which a publication expires; 0: never
    explicit registry(std::size_t bound = 1024, instant time_to_live = 0)
        : bound_{bound == 0 ? 1 : bound}, time_to_live_{time_to_live} {}

    /// Publishes a buffer under a name.
    /// \param name        1 to 200 bytes without control characters
    /// \param buffer      number of the buffer, from 1
    /// \param descriptor  at most 60000 bytes
    /// \param fds         number of file descriptors, at most 8
    /// \param now         current time
    /// \return            publications removed: the previous one of the name, or the least recently used one
    /// \throws error  errc::argument: an argument is out of these bounds
    std::vector<publication> publish(std::string_view name, std::uint64_t buffer, std::vector<std::byte> descriptor,
                                     std::uint8_t fds, instant now) {
        constexpr auto api = "ferry::ipc::publish";
        if (!protocol::is_name(name))
            ferry::detail::fail(errc::argument, api,
                                "a name has 1 to 200 bytes and no control characters: choose another");
        if (buffer == 0) ferry::detail::fail(errc::argument, api, "buffer 0 means none: number buffers from 1");
        if (descriptor.size() > protocol::max_descriptor)
            ferry::detail::fail(errc::argument, api,
                                ferry::message{} << "a descriptor of " << std::uint64_t{descriptor.size()}
                                                 << " bytes; 60000 are the most: describe fewer buffers");
        if (fds > protocol::max_fds)
            ferry::detail::fail(errc::argument, api,
                                ferry::message{} << unsigned{fds} << " file descriptors; 8 are the most");
        publication fresh{std::string{name}, buffer, ++generation_, std::move(descriptor), fds, now, 0, ++used_};
        std::vector<publication> gone;
        gone.reserve(1);
        if (auto const old = names_.find(name); old != names_.end()) {
            gone.push_back(std::exchange(old->second, std::move(fresh)));
            return gone;
        }
        auto key = fresh.name;
        names_.emplace(std::move(key), std::move(fresh));
        if (names_.size() > bound_) gone.push_back(take(oldest()));
        return gone;
    }

    /// Returns the publication of a name, and counts it as used.
    /// \param name  the name
    /// \param now   current time
    /// \return      null when the name has none, or its time to live is over
    [[nodiscard]] publication const* use(std::string_view name, instant now) {
        auto const found = names_.find(name);
        if (found == names_.end() || is_over(found->second, now)) return nullptr;
        found->second.used = ++used_;
        return &found->second;
    }
    /// Counts a grant of a publication.
    /// \param name  its name; no effect when nothing is published under it
    void count_grant(std::string_view name) {
        if (auto const found = names_.find(name); found != names_.end()) ++found->second.grants;
    }
    /// Removes a name.
    /// \param name  the name
    /// \return      its publication; empty when there is none
    [[nodiscard]] std::vector<publication> withdraw(std::string_view name) {
        std::vector<publication> gone;
        gone.reserve(1);
        if (auto const found = names_.find(name); found != names_.end()) gone.push_back(take(found));
        return gone;
    }
    /// Removes the publications whose time to live is over.
    /// \param now  current time
    /// \return     the publications removed
    [[nodiscard]] std::vector<publication> expire(instant now) {
        std::vector<publication> gone;
        for (auto it = names_.begin(); it != names_.end();) {
            auto const next = std::next(it);
            if (is_over(it->second, now)) gone.push_back(take(it));
            it = next;
        }
        return gone;
    }

    /// Returns all publications by name, and whether a buffer is published.
    [[nodiscard]] std::map<std::string, publication, std::less<>> const& all() const noexcept { return names_; }
    [[nodiscard]] bool holds(std::uint64_t buffer) const noexcept {
        for (auto const& [name, p] : names_)
            if (p.buffer == buffer) return true;
        return false;
    }
    [[nodiscard]] std::uint64_t generation() const noexcept { return generation_; }
    bool operator==(registry const&) const = default;

   private:
    using names = std::map<std::string, publication, std::less<>>;

    [[nodiscard]] bool is_over(publication const& p, instant now) const noexcept {
        return time_to_live_ != 0 && now - p.since >= time_to_live_;  // mutant: ipc_time_to_live
    }
    [[nodiscard]] names::iterator oldest() {
        auto found = names_.begin();
        for (auto it = names_.begin(); it != names_.end(); ++it)
            if (it->second.used < found->second.used) found = it;
        return found;
    }
    publication take(names::iterator it) {
        publication p = std::move(it->second);
        names_.erase(it);
        return p;
    }

    std::size_t bound_;
    instant time_to_live_;
    std::uint64_t generation_ = 0, used_ = 0;
    names names_;
};

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::ipc
