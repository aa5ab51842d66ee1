#!/bin/sh
# check_examples.sh HTML: whether the page of every public class of the site has an example.
set -eu
cd "$1"
pages=$(find . \( -name 'class*_1_1*.html' -o -name 'struct*_1_1*.html' \) ! -name '*-members.html')
[ -n "$pages" ] || { echo "there are no pages of classes in $1"; exit 1; }
# shellcheck disable=SC2086 # a list of files
missing=$(grep -L 'class="fragment"' $pages | sed 's|^\./||; s|^class||; s|^struct||; s|\.html$||; s|_1_1|::|g' | sort)
[ -z "$missing" ] || { echo "these classes have no example in tests/snippets:"; echo "$missing"; exit 1; }
