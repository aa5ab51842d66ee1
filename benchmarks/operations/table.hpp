#pragma once

#include "operations/operation.hpp"

namespace lockstep::bench {

extern const OperationEntry kRun;
extern const OperationEntry kRunAllReduce;
extern const OperationEntry kMergeCall;
extern const OperationEntry kUpdate;
extern const OperationEntry kAxisReduce;
extern const OperationEntry kBatchReduce;
extern const OperationEntry kStep;
extern const OperationEntry kRecordedStep;
extern const OperationEntry kInput;

}  // namespace lockstep::bench
