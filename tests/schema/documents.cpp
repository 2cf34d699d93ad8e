// Two halves of a conversation with check.py. Without an argument: writes the name and the JSON of every sample, a line
// each. With `read`: reads documents, one a line, and answers each with a line: the document as ferry writes it, or
// `error: ` and why.
#include <ferry/wire/json.hpp>

#include <support/descriptors.hpp>

#include <cstdio>
#include <iostream>
#include <string>

int main(int count, char**) {
    if (count == 1) {
        for (auto const& [name, d] : support::descriptors())
            std::printf("%s\t%s\n", name.c_str(), ferry::wire::to_json(d).c_str());
        return 0;
    }
    for (std::string line; std::getline(std::cin, line);) {
        try {
            std::printf("%s\n", ferry::wire::to_json(ferry::wire::from_json(line)).c_str());
        } catch (ferry::error const& e) {
            std::printf("error: %s\n", e.what());
        }
    }
}
