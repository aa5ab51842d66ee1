#!/bin/sh
# plant.sh MODELS FOLDER: each planted fault of the models must be found. A model says with which definitions:
# "// PLANT_NAME: DEFINITION...".
set -eu
models=$1 folder=$2 num_missed=0
for model in "$models"/*.pml; do
  for plant in $(grep -oE '^#.*PLANT_[A-Z_]+' "$model" | grep -oE 'PLANT_[A-Z_]+' | sort -u); do
    definitions=$(sed -n "s#^// $plant: ##p" "$model")
    if [ -z "$definitions" ]; then
      echo "$model: it does not say how $plant is found" && num_missed=$((num_missed + 1))
    elif "$models/verify.sh" "$model" "$folder/$plant" breaks - "-D$plant" $definitions >"$folder/$plant.txt"; then
      echo "found   $(basename "$model") $plant: $(grep -m1 violated "$folder/$plant/pan.txt" | cut -c1-100)"
    else
      echo "MISSED  $(basename "$model") $plant" && num_missed=$((num_missed + 1))
    fi
  done
done
exit "$num_missed"
