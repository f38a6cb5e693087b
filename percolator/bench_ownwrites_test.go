package percolator_test

import (
	"fmt"
	"testing"

	"github.com/gopercolator/percolator/percolator"
)

// BenchmarkReadsBesideOwnWrites has a transaction write 4,000 rows and read one after each write:
// what it has just written, by index, by a scan of the row, or by name.
func BenchmarkReadsBesideOwnWrites(b *testing.B) {
	const rows = 4000
	c := benchClientOf(b, percolator.Config{}, &percolator.Schema{Tables: []percolator.Table{{Name: "people", Indexes: []percolator.Index{{Name: "city", Column: "city"}}}}})
	city := percolator.String("people", "city")
	for name, read := range map[string]func(tx *percolator.Txn, row, value string) error{
		"index": func(tx *percolator.Txn, row, value string) error {
			for _, err := range city.ScanIndex(b.Context(), tx, "city", percolator.Row(value)) {
				return err
			}
			return fmt.Errorf("%s is missing", row)
		},
		"scan": func(tx *percolator.Txn, row, value string) error {
			for _, err := range city.Scan(b.Context(), tx, percolator.Row(row)) {
				return err
			}
			return fmt.Errorf("%s is missing", row)
		},
		"get": func(tx *percolator.Txn, row, value string) error {
			_, err := city.Get(b.Context(), tx, row)
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				tx, err := c.Begin(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				for i := range rows {
					row, value := fmt.Sprint("row", i*7919%rows), fmt.Sprint("value", i)
					if err := city.Set(tx, row, value); err != nil {
						b.Fatal(err)
					}
					if err := read(tx, row, value); err != nil {
						b.Fatal(err)
					}
				}
				if err := tx.Rollback(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
