#include "input/formats/npy_header.hpp"

#include <string>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace lockstep;
using detail::FileFault;
using detail::NpyHeader;
using detail::parse_npy_header;

namespace {

FileFault fault_of(const std::string& text) {
  try {
    parse_npy_header(text, 100);
  } catch (const FileFault& fault) {
    return fault;
  }
  return {0, "no fault"};
}

bool has(const FileFault& fault, std::uint64_t position, const std::string& reason) {
  INFO(fault.position << ": " << fault.reason);
  CHECK(fault.position == 100 + position);
  CHECK(fault.reason.find(reason) != std::string::npos);
  return fault.position == 100 + position && fault.reason.find(reason) != std::string::npos;
}

}  // namespace

TEST_CASE("a header is read in any order and spacing", "[input][npy][host]") {
  const auto text =
      GENERATE(as<std::string>(), "{'descr': '>f4', 'fortran_order': True, 'shape': (3, 4), }    \n",
               "{'shape':(3,4),'fortran_order':True,'descr':'>f4'}",
               " { \"descr\" : \">f4\" ,\n\t'fortran_order': True,\r\n'shape': ( 3L , 4L , ) , } ");
  const NpyHeader header = parse_npy_header(text, 0);
  CHECK(header.dtype == DType::f32);
  CHECK(header.is_swapped);  // this machine is little-endian
  CHECK(header.fortran_order);
  CHECK(header.extents == std::vector<std::int64_t>{3, 4});
}

TEST_CASE("a header has any rank", "[input][npy][host]") {
  const auto extents = [](const std::string& shape) {
    return parse_npy_header("{'descr': '|u1', 'fortran_order': False, 'shape': " + shape + "}", 0).extents;
  };
  CHECK(extents("()").empty());
  CHECK(extents("(7,)") == std::vector<std::int64_t>{7});
  CHECK(extents("(0, 9223372036854775807)") == std::vector<std::int64_t>{0, INT64_MAX});
}

TEST_CASE("a header names every element type", "[input][npy][host]") {
  const auto [descr, dtype] = GENERATE(table<std::string, DType>({{"<f2", DType::f16},
                                                                  {"<f4", DType::f32},
                                                                  {"<f8", DType::f64},
                                                                  {"|i1", DType::i8},
                                                                  {"<i2", DType::i16},
                                                                  {"<i4", DType::i32},
                                                                  {"=i8", DType::i64},
                                                                  {"|u1", DType::u8},
                                                                  {"<u2", DType::u16},
                                                                  {"<u4", DType::u32},
                                                                  {"|u8", DType::u64},
                                                                  {"|b1", DType::boolean},
                                                                  {"f4", DType::f32}}));
  const NpyHeader header =
      parse_npy_header("{'descr': '" + descr + "', 'fortran_order': False, 'shape': ()}", 0);
  CHECK(header.dtype == dtype);
  CHECK_FALSE(header.is_swapped);
}

TEST_CASE("a hostile header is refused with position and reason", "[input][npy][host]") {
  CHECK(has(fault_of(""), 0, "expected '{'"));
  CHECK(has(fault_of("[]"), 0, "expected '{'"));
  CHECK(has(fault_of("{"), 1, "expected a string"));
  CHECK(has(fault_of("{descr: 1}"), 1, "expected a string"));
  CHECK(has(fault_of("{'descr"), 1, "a string has no end"));
  CHECK(has(fault_of("{'descr' 1}"), 9, "expected ':'"));
  CHECK(has(fault_of("{'descr': }"), 10, "expected a string"));
  CHECK(has(fault_of("{'descr': '<f4' 'shape'"), 16, "expected ','"));
  CHECK(has(fault_of("{'descr': [('x', '<f4')]}"), 10, "structured elements"));
  CHECK(has(fault_of("{'descr': '<c8'}"), 10, "elements '<c8' cannot be read, only f2"));
  CHECK(has(fault_of("{'descr': '|O'}"), 10, "elements '|O'"));
  CHECK(has(fault_of("{'descr': ''}"), 10, "elements ''"));
  CHECK(has(fault_of("{'descr': '<f4\x01\xff'}"), 10, "elements '<f4\?\?'"));
  CHECK(has(fault_of("{'" + std::string(10'000, 'x') + "': 1}"), 1, "…'"));
  CHECK(fault_of("{'" + std::string(10'000, 'x') + "': 1}").reason.size() < 200);
  CHECK(has(fault_of("{'fortran_order': 1}"), 18, "expected True or False"));
  CHECK(has(fault_of("{'shape': [1]}"), 10, "expected '('"));
  CHECK(has(fault_of("{'shape': (1)}"), 12, "a tuple of one needs a comma"));
  CHECK(has(fault_of("{'shape': (1, x)}"), 14, "expected an extent"));
  CHECK(has(fault_of("{'shape': (1 2)}"), 13, "expected ','"));
  CHECK(has(fault_of("{'shape': (1,"), 13, "expected an extent"));
  CHECK(has(fault_of("{'shape': (-1,)}"), 11, "an extent is negative"));
  CHECK(has(fault_of("{'shape': (99999999999999999999,)}"), 11, "does not fit 64 bits"));
  CHECK(has(fault_of("{'extra': 1}"), 1, "the key 'extra' is not one of descr, fortran_order, shape"));
  CHECK(has(fault_of("{'shape': (), 'shape': ()}"), 14, "the key 'shape' occurs twice"));
  CHECK(has(fault_of("{'fortran_order': True, 'shape': ()}"), 0, "the key 'descr' is missing"));
  CHECK(has(fault_of("{'descr': '<f4', 'shape': ()}"), 0, "the key 'fortran_order' is missing"));
  CHECK(has(fault_of("{'descr': '<f4', 'fortran_order': True}"), 0, "the key 'shape' is missing"));
  CHECK(has(fault_of("{'descr': '<f4', 'fortran_order': True, 'shape': ()} x"), 53,
            "more after the dictionary"));
}
