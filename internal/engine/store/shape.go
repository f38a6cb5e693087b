package store

import "github.com/gopercolator/percolator/percolator/model"

// Shape is what a query asks. Each has a constructor in query.go, which says what it finds, what it
// costs and who sends it; Evaluate says what a store has to answer, filter what a real one is sent.
// The probe (internal/probe) and the comparison of the simulated store with a real one go through
// all of them.
type Shape uint8

const (
	// Asked of users' tables. What every transaction asks comes first.

	ShapeNewest Shape = iota
	ShapeNewestIn
	ShapeWholeRow
	ShapeDataAt
	ShapeHeldLock
	ShapeRecord
	ShapePrimary
	ShapeConflict
	ShapeConflictSpan
	ShapeAnyNotify
	ShapePending
	ShapePendingUpTo
	ShapeWrittenSince
	ShapeLocks
	ShapeAllLocks
	ShapeGarbage
	ShapeExported
	ShapeWeak
	ShapeRecords
	ShapeInspected
	ShapeAnything
	ShapeHistory
	ShapeRecordsFrom
	ShapeChanged

	// Asked of the instance's own table, but for ShapeJournalCells.

	ShapeCellsOf
	ShapeCellIs
	ShapeCellBegins
	ShapeCellAtLeast
	ShapeEitherCell
	ShapeJournalCells
	ShapeSafepointRefused
	ShapeHoldRefused
)

var shapeNames = [...]string{
	ShapeNewest: "newest", ShapeNewestIn: "newest in ranges", ShapeWholeRow: "whole row", ShapeDataAt: "data",
	ShapeHeldLock: "held lock", ShapeRecord: "record", ShapePrimary: "primary", ShapeConflict: "conflict",
	ShapeConflictSpan: "conflict in a span", ShapeAnyNotify: "any notification", ShapePending: "pending",
	ShapePendingUpTo: "pending up to", ShapeWrittenSince: "written since", ShapeLocks: "locks", ShapeAllLocks: "all locks",
	ShapeGarbage: "garbage", ShapeExported: "exported", ShapeWeak: "weak notifications", ShapeRecords: "records",
	ShapeInspected: "inspected", ShapeAnything: "anything", ShapeHistory: "history",
	ShapeRecordsFrom: "records from", ShapeChanged: "changed", ShapeCellsOf: "cells", ShapeCellIs: "cell is",
	ShapeCellBegins: "cell begins", ShapeCellAtLeast: "cell at least", ShapeEitherCell: "either cell",
	ShapeJournalCells: "journal", ShapeSafepointRefused: "safepoint refused", ShapeHoldRefused: "hold refused",
}

func (s Shape) String() string { return shapeNames[s] }

// Shapes lists all.
func Shapes() (all []Shape) {
	for s := range shapeNames {
		all = append(all, Shape(s))
	}
	return all
}

// Table is what such a query is asked of: the instance's own table or its journal; "": a table of a
// user.
func (s Shape) Table() string {
	switch {
	case s == ShapeJournalCells:
		return model.JournalTable
	case s >= ShapeCellsOf:
		return model.MetaTable
	}
	return ""
}
