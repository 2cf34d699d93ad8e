#include <ferry/column.hpp>
#include <ferry/ipc.hpp>
#include <ferry/wire/binary.hpp>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

// The application's buffers: three readings, the second of which is missing.
struct readings {
    std::vector<float> celsius{20.5f, 0.0f, 21.25f};
    unsigned char is_valid[1] = {0b101};  // one bit for each item, lowest bit first
};

int main(int, char** arguments) {
    std::filesystem::path const path = arguments[1];
    auto const r = std::make_shared<readings const>();
    ferry::column_buffer const buffers[] = {{r->is_valid, 1}, {r->celsius.data(), 12}};
    ferry::column const c =
        ferry::make_column({.format = "f", .name = "celsius", .length = 3, .buffers = buffers}, r);

    ferry::ipc::shared const shared =
        ferry::ipc::share(c);  // copies once, into shared memory
    auto const bytes =
        ferry::wire::to_bytes(shared.descriptor());  // a few hundred bytes
    std::ofstream{path.string() + ".part", std::ios::binary}.write(
        reinterpret_cast<char const*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    std::filesystem::rename(path.string() + ".part", path);  // atomic: the consumer never reads a partial file

    while (std::filesystem::exists(path))
        std::this_thread::sleep_for(std::chrono::milliseconds{20});
}  // closes the share: new attaches fail, existing ones stay valid
