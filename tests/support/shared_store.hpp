#pragma once

#include <algorithm>
#include <cstring>
#include <ctime>
#include <stdexcept>
#include <string>
#include <string_view>

#include <pthread.h>

#include <lockstep/backend/engine.hpp>
#include <lockstep/error.hpp>

#include "support/process_team.hpp"

namespace lockstep::test {

/// A store that a process shares with its forks.
class SharedStore final : public backend::KeyValueStore {
 public:
  SharedStore() {
    pthread_mutexattr_t mutex;
    pthread_mutexattr_init(&mutex);
    pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&mutex, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&table_->mutex, &mutex);
    pthread_condattr_t changed;
    pthread_condattr_init(&changed);
    pthread_condattr_setpshared(&changed, PTHREAD_PROCESS_SHARED);
    pthread_cond_init(&table_->changed, &changed);
  }

  void set(const std::string& key, const std::string& value) override {
    const Lock lock(*table_.operator->());
    if (table_->size == kMost || key.size() >= sizeof(Entry::key) || value.size() > sizeof(Entry::value))
      throw std::length_error("the store is too small for " + key);
    Entry& entry = table_->entries[table_->size++];
    std::strcpy(entry.key, key.c_str());
    std::memcpy(entry.value, value.data(), value.size());
    entry.size_bytes = value.size();
    pthread_cond_broadcast(&table_->changed);
  }
  std::string get(const std::string& key, backend::Deadline) override {
    const Lock lock(*table_.operator->());
    timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 60;
    for (;;) {
      for (int i = 0; i < table_->size; ++i) {
        const Entry& entry = table_->entries[i];
        if (key == entry.key) return std::string(entry.value, entry.size_bytes);
      }
      if (pthread_cond_timedwait(&table_->changed, &table_->mutex, &end) == ETIMEDOUT)
        throw CollectiveTimeout("nobody has set " + key);
    }
  }

  void erase(const std::string& prefix) override {
    const Lock lock(*table_.operator->());
    Entry* const end = table_->entries + table_->size;
    Entry* const kept = std::remove_if(table_->entries, end, [&](const Entry& entry) {
      return std::string_view(entry.key).starts_with(prefix);
    });
    table_->size = static_cast<int>(kept - table_->entries);
  }
  int num_keys() {
    const Lock lock(*table_.operator->());
    return table_->size;
  }

 private:
  static constexpr int kMost = 200;
  struct Entry {
    char key[100];
    char value[2000];
    std::size_t size_bytes;
  };
  struct Table {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int size;
    Entry entries[kMost];
  };
  struct Lock {
    explicit Lock(Table& locked) : table(locked) {
      // Whoever died with it has changed nothing by halves.
      if (pthread_mutex_lock(&table.mutex) == EOWNERDEAD) pthread_mutex_consistent(&table.mutex);
    }
    ~Lock() { pthread_mutex_unlock(&table.mutex); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    Table& table;
  };

  SharedWithForks<Table> table_;
};

}  // namespace lockstep::test
