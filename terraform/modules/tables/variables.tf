variable "schema_file" {
  description = "Path of the schema file, YAML or JSON, that `percolator schema apply` reads as well."
  type        = string

  validation {
    condition     = can(yamldecode(file(var.schema_file)).tables[0].name)
    error_message = "The schema file cannot be read, is not YAML, or has no list of tables with names."
  }
}
