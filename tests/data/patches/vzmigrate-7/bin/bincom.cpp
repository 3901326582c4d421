/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Lines to patch, written for the test: what OpenVZ 7's tool has there. The
 * first argument is what --ssh-cipher would have given. */
#include <stdio.h>

static struct {
	int ssh_options;
} VZMoptions;

static void
string_list_add(int *list, const char *s)
{
	*list += 1;
	printf("%d:%s\n", *list, s);
}

int
main(int argc, char **argv)
{
	const char *cipher = argc > 1 ? argv[1] : NULL;

	(void)cipher;
	string_list_add(&VZMoptions.ssh_options, "-T");
	string_list_add(&VZMoptions.ssh_options, "-c");
	if (cipher != NULL)
		string_list_add(&VZMoptions.ssh_options, cipher);
	else
		string_list_add(&VZMoptions.ssh_options, "aes256-gcm@openssh.com,arcfour");
	string_list_add(&VZMoptions.ssh_options, "-o");
	return 0;
}
