// Package adopt brings a plain Bigtable table into a Percolator table while programs go on to write
// it: [Mapping.Source] is a source for [loader.Bulk], and [Compare] finds, and mends, what differs
// afterwards. docs/ADOPT.md has the whole path.
//
// [loader.Bulk]: https://pkg.go.dev/github.com/gopercolator/percolator/percolator/loader#Bulk
package adopt
