package transfer

import (
	"sluice/lib/jsonscan"
	"sluice/user/profile"
)

// UserCell appends a cell of a CSV of users as JSON. External ids and standard
// attributes that are texts stay texts; of custom ones numbers, true and false
// become such, all else is text. Of an alias, and of a standard attribute that is
// no text (a location, groups), the cell is its JSON.
func UserCell(dst []byte, column, cell string) []byte {
	if column != "external_id" && !profile.IsTextField(column) {
		v, err := jsonscan.Scan(cell)
		structured := profile.IsStandard(column) || column == "user_alias"
		if err == nil && v.Raw == cell && (v.Kind == jsonscan.Number || v.Kind == jsonscan.Bool || structured) {
			return append(dst, cell...)
		}
	}
	return appendJSONText(dst, cell)
}
