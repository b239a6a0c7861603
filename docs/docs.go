// Package docs is the manual: the pages of this folder, for the server to show.
package docs

import "embed"

// Files are the pages and their pictures.
//
//go:embed *.md images
var Files embed.FS
