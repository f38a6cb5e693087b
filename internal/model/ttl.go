package model

import "time"

// TTLOf is how long a value of a column lives from its commit on; 0: until it is deleted. A column
// that declares none has that of its table.
func (t *TableInfo) TTLOf(column string) time.Duration {
	if d, ok := t.Declared.Of(column); ok && d.TTL != 0 {
		return d.TTL
	}
	return t.TTL
}
