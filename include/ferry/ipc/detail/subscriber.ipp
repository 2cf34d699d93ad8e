// ferry: the engine of ipc/subscriber.hpp.
#pragma once

#include <ferry/ipc/subscriber.hpp>

#include <ferry/ipc/attach_column.hpp>
#include <ferry/ipc/detail/open_group.hpp>
#include <ferry/ipc/detail/topic_file.hpp>

namespace FERRY_NAMESPACE::ipc {

struct subscriber::state {
    static constexpr char const* api = "ferry::ipc::subscriber";
    /// The memory of a slot, as it was last read and attached.
    struct slot {
        std::uint64_t stamp = 0;  // 0 if not read yet
        wire::descriptor from{};
        std::vector<int> files{};
        detail::known_memory known{};
    };
    /// A frame, and the stamp of its slot at the time when the frame was found.
    struct candidate {
        std::size_t k;
        std::uint64_t generation, stamp;
    };

    /// Returns the next frame. `attach` is detail::attach_tensor or attach_column.
    template <class T>
    [[nodiscard]] std::optional<frame<T>> next(std::chrono::nanoseconds limit, attach_options how, handle_ref b,
                                               T attach(wire::descriptor const&, attach_options const&, handle_ref,
                                                        detail::known_memory*, std::source_location)) {
        auto const end = detail::deadline(limit);
        if (how.session == nullptr) how.session = &own;
        bool const has_files = !how.files.empty();
        for (bool is_first = true;; is_first = false) {
            // At most a second, because a file that another process has removed does not change any more.
            auto const left = std::clamp<std::chrono::nanoseconds>(end - std::chrono::steady_clock::now(), {},
                                                                   std::chrono::seconds{1});
            update(is_first && is_newer() ? left.zero() : left);
            for (int tries = 0; tries < 2; ++tries) {  // the second time with the current descriptor of the slot
                auto const c = look();
                if (!c) break;
                auto& s = slots[c->k];
                if (!has_files) how.files = s.files;
                try {
                    T value = attach(s.from, how, b, &s.known, std::source_location::current());
                    // Checked last, because from now on the publisher keeps the slot until `value` is destroyed.
                    if (is_current(*c)) {
                        seen = c->generation;
                        return frame<T>{std::move(value), seen};
                    }
                } catch (error const& e) {
                    if (e.code() != errc::exporter_gone && is_current(*c)) throw;
                }
                s = {};
            }
            if (left == left.zero()) return {};
        }
    }
    /// Waits for a frame that is newer than the last, and reads which frame is the newest. Opens the file of the name
    /// if no file is open, or if another file has the name.
    void update(std::chrono::nanoseconds left) {
        if (!file) {
            names.wait(arrivals, left, api);
            return open_name();
        }
        // Before each read of the mapping, checks the length of the file: a shorter file is an error, not a SIGBUS.
        int const why = detail::futex_wait(&its.latest(), static_cast<std::uint32_t>(latest), left);
        struct stat facts = {};
        if (why == EFAULT) {
            if (!name.empty()) file = {};
            fail_damaged();
        }
        latest = its.latest();
        auto const k = latest & 255;
        if (!is_newer() && (k == detail::has_moved || k == detail::has_ended ||
                            (why == ETIMEDOUT && ::fstat(file.get(), &facts) == 0 && facts.st_nlink == 0)))
            open_name();
    }
    /// Finds a frame that is newer than the last, and reads the descriptor of its slot.
    [[nodiscard]] std::optional<candidate> look() {
        if (file) latest = its.latest();
        if (!is_newer()) return {};
        candidate const c{latest & 255, latest >> 8, its.stamp(latest & 255)};
        auto& s = slots[c.k];
        if (s.stamp != c.stamp) try {
                detail::topic_record r;
                s = {};
                auto const at = static_cast<off_t>(its.place_of(c.k));
                if (!detail::read_at(file.get(), at, &r, sizeof r) || r.length > detail::most_descriptor ||
                    r.length > its.capacity - sizeof r)
                    fail_damaged();
                bytes.resize(r.length);
                if (!detail::read_at(file.get(), at + off_t{sizeof r}, bytes.data(), bytes.size())) fail_damaged();
                s.from = wire::from_bytes(bytes);
                if (r.files != 0 && (r.first_file > files.size() || r.files > files.size() - r.first_file))
                    detail::fail(
                        errc::permission, api,
                        "the memory needs file descriptors, and this subscriber has none for it: pass it the files "
                        "that publisher::files returns");
                for (std::size_t i = 0; i < r.files; ++i) s.files.push_back(files[r.first_file + i].get());
                if (!is_current(c)) return {};
                s.stamp = c.stamp;
            } catch (error const&) {
                if (is_current(c)) throw;
                return {};
            }
        return c;
    }
    [[nodiscard]] bool is_current(candidate const& c) const noexcept {
        std::atomic_thread_fence(std::memory_order_seq_cst);
        return its.generation(c.k) == c.generation && its.stamp(c.k) == c.stamp;
    }
    [[nodiscard]] bool is_newer() const noexcept { return file && (latest & 255) < slots.size() && latest >> 8 > seen; }
    void open_directory() {
        directory = detail::names_directory(path, api);
        names = {directory.get(), api};
    }
    /// Opens the file that has the name, if it is not open already.
    void open_name() {
        if (name.empty()) return;
        struct stat folder = {};
        if (::fstat(directory.get(), &folder) != 0 || folder.st_nlink == 0) open_directory();
        arrivals = names.arrivals();
        auto found = detail::open_own(directory.get(), name.c_str(), O_RDONLY, api);
        struct stat other = {}, mine = {};
        if (!found || (file && ::fstat(found.get(), &other) == 0 && ::fstat(file.get(), &mine) == 0 &&
                       other.st_ino == mine.st_ino && other.st_dev == mine.st_dev))
            return;
        if (!open(std::move(found))) detail::fail_other(name, api);
    }
    [[nodiscard]] bool open(unique_fd fresh) {
        detail::topic_head head;
        struct stat facts = {};
        if (!detail::read_at(fresh.get(), 0, &head, sizeof head) || head.magic != head.the_magic ||
            head.slots > detail::most_slots || head.capacity < sizeof(detail::topic_record) || head.capacity % 8 != 0)
            return false;
        detail::topic_map made{{}, head.capacity};
        auto const size = made.place_of(head.slots);
        if (::fstat(fresh.get(), &facts) != 0 || facts.st_size < static_cast<off_t>(size)) return false;
        made.at = detail::map_file(fresh.get(), size, PROT_READ, api);
        slots.assign(head.slots, {});
        if (std::exchange(stream, head.stream) != head.stream) seen = 0;
        its = std::move(made), file = std::move(fresh), latest = its.latest();
        return true;
    }
    [[noreturn]] FERRY_COLD void fail_damaged() const {
        detail::fail(errc::bad_descriptor, api, "the file of the topic is damaged: restart its publisher");
    }

    std::string name{}, path{};
    unique_fd directory{};
    detail::names_file names{};
    session own{};
    std::vector<unique_fd> files{};
    unique_fd file{};
    detail::topic_map its{};
    std::vector<slot> slots{};
    std::vector<std::byte> bytes{};
    std::uint64_t latest = 0, stream = 0, seen = 0;  // latest is the value that was last read from the file
    std::uint32_t arrivals = 0;
};

FERRY_INLINE subscriber::subscriber(std::string_view name, topic_options const& how)
    : state_{std::make_unique<state>()} {
    state_->name = detail::file_of(name, state::api), state_->path = how.directory;
    state_->open_directory();
}

FERRY_INLINE subscriber::subscriber(std::vector<unique_fd>&& files) : state_{std::make_unique<state>()} {
    if (files.empty() || !state_->open(std::move(files[0])))
        detail::fail(errc::bad_descriptor, state::api, "expected the files of a publisher, got ", files.size(),
                     " others: send publisher::files");
    state_->files = std::move(files);
}

FERRY_INLINE subscriber::~subscriber() = default;

FERRY_INLINE std::optional<frame<managed_tensor>> subscriber::next(std::chrono::nanoseconds limit,
                                                                   attach_options const& how, handle_ref b) {
    return state_->next(limit, how, b, detail::attach_tensor);
}

FERRY_INLINE std::optional<frame<column>> subscriber::next_column(std::chrono::nanoseconds limit,
                                                                  attach_options const& how, handle_ref b) {
    return state_->next(limit, how, b, detail::attach_column);
}

FERRY_INLINE bool subscriber::has_publisher() const noexcept {
    return state_->file && detail::is_locked(state_->file.get(), detail::owner_byte);
}

FERRY_INLINE std::vector<std::string> topics(topic_options const& how) {
    constexpr auto api = "ferry::ipc::topics";
    auto const directory = detail::names_directory(how.directory, api);
    std::vector<std::string> names;
    detail::for_each_name(directory.get(), api, [&](char const* file, std::string name) {
        unique_fd const f{::openat(directory.get(), file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};
        if (!f && (errno == EMFILE || errno == ENFILE)) detail::fail_system(api, file);
        if (f && detail::is_locked(f.get(), detail::owner_byte)) names.push_back(std::move(name));
    });
    std::ranges::sort(names);
    return names;
}

}  // namespace FERRY_NAMESPACE::ipc
