# What Doxygen reads of a header: internal bases are left out, and the transformations of datasets are public.
s/ : public detail::ThreadGuard<[A-Za-z_]*>//
/^\/\/\/ Transformations that keep/,/^}  \/\/ namespace detail/ {
  s/^\/\/\/ Transformations/} &/
  /^}  \/\/ namespace detail/d
}
s/detail::Transformations</Transformations</g
s/<Dataset, detail::DatasetHandle>/<Dataset>/
