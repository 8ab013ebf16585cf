# SPDX-License-Identifier: Apache-2.0
# Sets the commit's time on every file of the package, and a fixed mode on directories, independent of the builder's umask.
execute_process(
	COMMAND find ${CPACK_TEMPORARY_DIRECTORY} -type d -exec chmod 755 {} +
	COMMAND_ERROR_IS_FATAL ANY)
execute_process(
	COMMAND find ${CPACK_TEMPORARY_DIRECTORY} -exec touch --no-dereference --date=@$ENV{SOURCE_DATE_EPOCH} {} +
	COMMAND_ERROR_IS_FATAL ANY)
