#include <ferry/column.hpp>
#include <ferry/ipc.hpp>
#include <ferry/wire/binary.hpp>

#include <cstddef>
#include <fstream>
#include <iostream>
#include <iterator>
#include <span>
#include <string>

int main(int, char** arguments) {
    std::ifstream file{arguments[1], std::ios::binary};
    std::string const text{std::istreambuf_iterator<char>{file}, {}};
    auto const descriptor = ferry::wire::from_bytes(
        std::as_bytes(std::span{text}));  // validated: the source need not be trusted

    try {
        ferry::column const c =
            ferry::ipc::attach_column(descriptor);  // the producer's memory, read-only; no copy
        std::cout << c.name() << ':';
        for (auto const reading : c.values<float>())
            if (reading)
                std::cout << ' ' << *reading;
            else
                std::cout << " null";
        std::cout << '\n';
    } catch (ferry::error const& e) {
        std::cout << ferry::name(e.code()) << '\n';
    }
}
