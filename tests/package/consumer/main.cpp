#include <ferry/ferry.hpp>

int main() {
    ferry::data_type const type = ferry::dtype_of<float>;
    return type == ferry::dtype_of<float> ? 0 : 1;
}
