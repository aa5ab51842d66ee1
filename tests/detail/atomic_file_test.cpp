#include "detail/atomic_file.hpp"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <exception>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <lockstep/error.hpp>

#include "support/matchers.hpp"
#include "support/temporary_directory.hpp"
#include "support/test_backend.hpp"

using namespace lockstep;
using detail::AtomicFile;
using detail::FileDescriptor;
using test::read_bytes;
using test::says;
using test::TemporaryDirectory;
using test::write_bytes;

using Names = std::set<std::string>;

namespace {

/// Files of this process have at most so many bytes until the end of the block.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_;
  void (*handler_)(int);
};

}  // namespace

TEST_CASE("a file appears when it is committed", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  {
    AtomicFile file(directory / "a", "save");
    file.write("old", 3);
    CHECK(file.temporary_path().parent_path() == directory.path());
    CHECK(directory.names().size() == 1);
    CHECK_FALSE(std::filesystem::exists(directory / "a"));
    file.commit();
    CHECK(directory.names() == Names{"a"});
  }
  CHECK(read_bytes(directory / "a") == "old");
  AtomicFile file(directory / "a", "save");
  file.write("n", 1);
  file.write("", 0);
  file.write("ew", 2);
  CHECK(read_bytes(directory / "a") == "old");
  file.commit();
  CHECK(read_bytes(directory / "a") == "new");
}

TEST_CASE("a file that is not committed leaves nothing", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  write_bytes(directory / "a", "old");
  {
    AtomicFile file(directory / "a", "save");
    file.write("new", 3);
  }
  CHECK(directory.names() == Names{"a"});
  CHECK(read_bytes(directory / "a") == "old");
}

TEST_CASE("two files of one name do not disturb each other: the last commit stays", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  AtomicFile a(directory / "f", "save"), b(directory / "f", "save");
  a.write("a", 1);
  b.write("b", 1);
  b.commit();
  a.commit();
  CHECK(read_bytes(directory / "f") == "a");
  CHECK(directory.names() == Names{"f"});
}

TEST_CASE("a file without a folder in its path goes to the current one", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(directory.path());
  {
    AtomicFile file("f", "save");
    file.commit();
  }
  std::filesystem::current_path(before);
  CHECK(directory.names() == Names{"f"});
}

TEST_CASE("names as long as the system allows can be written", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  const std::string name(255, 'x');
  AtomicFile file(directory / name, "save");
  file.commit();
  CHECK(directory.names() == Names{name});
}

TEST_CASE("a link is replaced, what it refers to stays", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  write_bytes(directory / "target", "old");
  std::filesystem::create_symlink("target", directory / "link");
  AtomicFile file(directory / "link", "save");
  file.write("new", 3);
  file.commit();
  CHECK(read_bytes(directory / "target") == "old");
  CHECK_FALSE(std::filesystem::is_symlink(directory / "link"));
  CHECK(read_bytes(directory / "link") == "new");
}

TEST_CASE("a file that cannot be made says why", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  CHECK_THROWS_MATCHES(AtomicFile(directory / "none/f", "save"), NotFound,
                       says("save: \"" + (directory / "none/f").string() + "\" cannot be made", "no folder",
                            "Create it first"));
  CHECK_THROWS_MATCHES(AtomicFile("", "save"), InvalidArgument,
                       says("save: the path \"\" names no file. Pass the path of one."));
  write_bytes(directory / "file", "");
  CHECK_THROWS_MATCHES(AtomicFile(directory / "file/f", "save"), Error,
                       says("cannot be made: Not a directory", "permissions"));
  std::filesystem::create_directory(directory / "folder");
  AtomicFile onto_folder(directory / "folder", "save");
  CHECK_THROWS_MATCHES(onto_folder.commit(), Error, says("cannot be replaced: Is a directory"));
}

TEST_CASE("a file that does not fit is an error, and leaves the old one", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  write_bytes(directory / "f", "old");
  const std::string data(100'000, 'x');
  const auto write = [&] {
    const FileSizeLimit limit(65536);  // in the middle of the second
    AtomicFile file(directory / "f", "save");
    file.write(data.data(), 10);
    file.write(data.data(), data.size());
  };
  CHECK_THROWS_MATCHES(write(), Error,
                       says("save: \"" + (directory / "f").string() + "\" cannot be written: File too large",
                            "Check the folder's space"));
  CHECK(read_bytes(directory / "f") == "old");
  CHECK(directory.names() == Names{"f"});
  try {
    write();
  } catch (const Error& error) {
    CHECK(error.context().code == EFBIG);
    CHECK(error.context().operation == "save");
  }
}

TEST_CASE("what a killed process left is removed, and nothing else", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    AtomicFile file(directory / "f", "save");
    file.write("x", 1);
    raise(SIGKILL);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  REQUIRE(directory.names().size() == 1);
  const Names others{"f", ".lockstep-.tmp2", ".lockstep-1-x.tmp", "lockstep-1-1.tmp", ".lockstep-1-1"};
  for (const std::string& name : others) write_bytes(directory / name, "");
  std::filesystem::create_directory(directory / ".lockstep-7-7.tmp");
  write_bytes(directory / ".lockstep-8-8.tmp", "from another machine");

  AtomicFile alive(directory / "f", "save");
  detail::remove_abandoned_files(directory.path());
  Names expected = others;
  expected.insert(".lockstep-7-7.tmp");
  expected.insert(alive.temporary_path().filename().string());
  CHECK(directory.names() == expected);
  alive.commit();
  CHECK_NOTHROW(detail::remove_abandoned_files(directory / "none"));
}

TEST_CASE("a temporary file of an equal name is left alone", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  const auto next_name = [&](int ahead) {
    const std::string name = AtomicFile(directory / "f", "save").temporary_path().filename().string();
    const std::size_t number = name.rfind('-') + 1;
    return name.substr(0, number) + std::to_string(std::stoi(name.substr(number)) + ahead) + ".tmp";
  };
  const std::string taken = next_name(1);
  write_bytes(directory / taken, "another machine's");
  AtomicFile file(directory / "f", "save");
  CHECK(file.temporary_path().filename() != taken);
  CHECK(read_bytes(directory / taken) == "another machine's");
}

TEST_CASE("files that are being written are never taken for abandoned", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  std::atomic<bool> done{false};
  std::thread cleaner([&] {
    while (!done) detail::remove_abandoned_files(directory.path());
  });
  std::exception_ptr failure;
  try {
    for (int i = 0; i < (kSlowBuild ? 100 : 500); ++i) {
      AtomicFile file(directory / "f", "save");
      file.write("x", 1);
      file.commit();
    }
  } catch (...) {
    failure = std::current_exception();
  }
  done = true;
  cleaner.join();
  if (failure) std::rethrow_exception(failure);
  CHECK(directory.names() == Names{"f"});
}

TEST_CASE("an atomic file does not replace a device or a pipe", "[checkpoint]") {
  const TemporaryDirectory directory;
  const auto pipe = directory / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THROWS_MATCHES(AtomicFile(pipe, "Checkpoint::save"), InvalidArgument,
                       says("Checkpoint::save", "pipe"));
  CHECK(directory.names() == std::set<std::string>{"pipe"});
}

TEST_CASE("a file waits for nobody who locks it", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  std::atomic<bool> is_done{false};
  // Locks whatever it finds, and keeps it.
  std::jthread locker([&] {
    std::vector<FileDescriptor> locked;
    while (!is_done) {
      for (const std::string& name : directory.names()) {
        FileDescriptor file(::open((directory / name).c_str(), O_RDONLY | O_CLOEXEC));
        if (file.is_open() && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0) locked.push_back(std::move(file));
        if (locked.size() > 500) locked.clear();
      }
    }
  });
  for (int i = 0; i < 2000; ++i) {
    AtomicFile file(directory / "f", "test");
    file.write("abc", 3);
    file.commit();
  }
  is_done = true;
  CHECK(read_bytes(directory / "f") == "abc");
}
