/* pdf.h: lets a program of Debian's make a PDF of a page of HTML. */
#pragma once

#include "client/command_line/command.h"

/* Makes FOLDER/report.pdf of FOLDER/report.html, by the first of weasyprint, chromium and
 * wkhtmltopdf that is installed. What they write besides lies in the folder, too. Prints every
 * error. */
enum exit_status pdf_make(const char *folder);
/* Removes the folder with all that is in it. */
void pdf_folder_remove(const char *folder);
