package model

import (
	"time"
)

// ColumnSchema declares a column, or several: a Name that ends in "*" declares all columns whose
// names begin with what stands before it, such as "item:*". There is no way to declare one column
// whose name ends in "*". A column's own declaration goes before that of a prefix, and a long
// prefix before a short one.
type ColumnSchema struct {
	Name string        // up to a final "*", the prefix of the names of columns
	Type Type          `json:",omitempty"` // "": TypeBytes
	TTL  time.Duration `json:",omitempty"` // 0: that of the table

	NotifyExpired bool `json:",omitempty"` // observers hear when a value has expired; needs a TTL
}

// MaxDeclaredColumns is how many declarations of columns a table may have.
const MaxDeclaredColumns = 1000
