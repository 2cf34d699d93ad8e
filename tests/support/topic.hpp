// For tests of topics and registries: a directory of a test's own, slots of shared memory, and frames of one value.
#pragma once

#include <ferry/ipc/publisher.hpp>
#include <ferry/ipc/share.hpp>

#include <support/ipc.hpp>
#include <support/patience.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace support {

/// A directory for names, in the private /dev/shm of the test program.
class own_directory {
   public:
    own_directory() {
        char name[] = "/dev/shm/names-XXXXXX";
        REQUIRE(::mkdtemp(name) != nullptr);
        path_ = name;
    }
    own_directory(own_directory const&) = delete;
    own_directory& operator=(own_directory const&) = delete;
    ~own_directory() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    [[nodiscard]] std::string const& path() const { return path_; }
    operator ferry::ipc::topic_options() const { return {.directory = path_}; }

   private:
    std::string path_;
};

[[nodiscard]] inline std::string contents(std::string const& path) {
    std::ifstream file{path, std::ios::binary};
    return {std::istreambuf_iterator<char>{file}, {}};
}

/// The code with which `f()` fails; for other processes, in which a failed check is not counted.
template <class F>
[[nodiscard]] ferry::errc code_of(F f) {
    try {
        f();
    } catch (ferry::error const& e) {
        return e.code();
    }
    return ferry::errc::ok;
}

inline constexpr std::int64_t frame_words = 512;
[[nodiscard]] inline ferry::ipc::shared slot(ferry::ipc::session* session = nullptr) {
    struct words {
        std::vector<std::uint64_t> values;
        std::vector<std::int64_t> shape;
    };
    words made{std::vector<std::uint64_t>(frame_words), {frame_words}};
    auto tensor =
        ferry::make_managed(std::move(made), [](words& w) { return ferry::tensor_view{w.values.data(), w.shape}; });
    return ferry::ipc::share(std::move(tensor), {.session = session});
}
[[nodiscard]] inline std::vector<ferry::ipc::shared> slots(std::size_t count, ferry::ipc::session* session = nullptr) {
    std::vector<ferry::ipc::shared> all;
    for (std::size_t i = 0; i < count; ++i) all.push_back(slot(session));
    return all;
}

/// Writes one value to all words of a slot.
inline void fill(ferry::ipc::shared const& slot, std::uint64_t value) {
    auto const t = slot.tensor();
    for (auto& word : t.as<std::uint64_t, 1>()) word = value;
}
/// Publishes a frame whose words are its generation.
inline std::uint64_t publish(ferry::ipc::publisher& to) {
    auto const slot = to.begin(patience);
    if (!slot) give_up("a slot that is not read");
    fill(to[*slot], to.generation() + 1);
    return to.publish(*slot);
}
[[nodiscard]] inline bool is_whole(ferry::managed_tensor const& t, std::uint64_t value) {
    auto const words = t.as<std::uint64_t const, 1>();
    if (words.extent(0) != frame_words) return false;
    for (auto const word : words)
        if (word != value) return false;
    return true;
}

}  // namespace support
