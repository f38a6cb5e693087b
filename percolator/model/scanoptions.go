package model

// MaxColumnRanges is how many ranges of columns a scan names, named columns and all, once those
// that overlap or touch are one.
const MaxColumnRanges = 100

// ScanOptions select the cells that ScanWith reads: those in one of the rows, and in a column that
// is named or lies in one of the ranges. Without Rows they are of all rows, without both Columns
// and ColumnRanges of all columns. Ranges may overlap and come in any order; an empty range selects
// nothing, and is not the same as none.
//
// With Index the scan reads that index of the table, as ScanIndex does: Rows are ranges of values,
// and the entries come in the order of values, then rows. Columns and ColumnRanges must be empty.
//
// With Reverse the rows come from the last key to the first; the columns of a row ascend as ever.
// Of an index, values descend, and so do the rows of one value. Limit ends the scan after so many
// rows that have an entry, of an index after so many entries; below 0 it is ErrInvalidArgument. A
// scan with a limit asks for no more rows than it lacks, or for as many as it has found without an
// entry if those are more. A transaction's own writes count like the rest.
//
// Cost: one request names up to 512 ranges of rows (480 KiB), so a few ranges cost as many requests
// as one that has as many rows; Bigtable passes over what lies in the ranges, and skips the rest.
// Columns are a filter: Bigtable sends only those, and still passes over every byte of each row,
// old versions and other columns too. A tenth of a wide row saves nine tenths of the sending and
// nothing of the reading, so keep such rows to some megabytes.
//
// Limits: a filter holds some 16 KiB. Columns without ColumnRanges take up to 4 bytes for each byte
// of a name. With ColumnRanges, a name counts as a range; when those that overlap or touch are one,
// there may be MaxColumnRanges, and each takes 3 times the bytes of its two bounds and 24 more.
// Beyond that: ErrTooLarge, before anything is sent.
type ScanOptions struct {
	Index        string   // "": the rows of the table
	Rows         []Range  // ranges of row keys, or of values of Index; none: all
	Columns      []string // names of columns
	ColumnRanges []Range  // ranges of names of columns; neither these nor Columns: all columns
	Reverse      bool     // rows from the last to the first, columns in order
	Limit        int      // of rows that have an entry, or of entries of Index; 0: none
}
